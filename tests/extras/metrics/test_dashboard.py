"""The dashboard for Grafana asks for what metrics tell."""

from __future__ import annotations

import re
from typing import Any

import orjson

from gateway.extras.metrics.counts import Metrics
from gateway.extras.metrics.dashboard import make_dashboard
from tests.extras.metrics.test_serving import read_families
from tests.support.rows import each_row

USED = re.compile(r"\b((?:gateway|gen_ai)_[a-z_]+?)(?:_bucket|_sum|_count)?(?=[\[{) ]|$)")
BY = re.compile(r"by \(([^)]*)\)|\{\{(\w+)\}\}")

DASHBOARD = orjson.loads(make_dashboard())


def find_families(query: str) -> list[str]:
    return USED.findall(re.sub(r"by \([^)]*\)", "", query))


def test_the_dashboard_shows_every_family_and_no_other() -> None:
    panels = DASHBOARD["panels"]
    asked = [target["expr"] for panel in panels for target in panel["targets"]]
    assert {name for one in asked for name in find_families(one)} == set(read_families())
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    assert all(one["datasource"]["uid"] == "${datasource}" for one in panels)
    assert DASHBOARD["templating"]["list"][0]["type"] == "datasource"


@each_row("panel", DASHBOARD["panels"])
def test_the_dashboard_asks_by_labels_that_exist(panel: dict[str, Any]) -> None:
    """Histograms are asked for their quantiles by bucket; legends name labels of the query."""
    families, labels = read_families(), read_labels()
    for target in panel["targets"]:
        (name, *_) = find_families(target["expr"])
        used = {
            one for group in BY.findall(target["expr"] + target["legendFormat"]) for one in group
        }
        named = {label.strip() for one in used for label in one.split(",") if label.strip()}
        assert named - {"le"} <= labels[name]
        assert ("_bucket" in target["expr"]) <= (families[name] == "histogram")
        assert target["expr"].count("(") == target["expr"].count(")")


def read_labels() -> dict[str, set[str]]:
    metrics = Metrics()
    found = {family.name: set(family.labels) for family in metrics.families}
    gauges = read_families().keys() - found.keys()
    return found | {name: set[str]() for name in gauges} | {"gateway_breaker_open": {"provider"}}
