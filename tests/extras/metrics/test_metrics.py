"""Metrics: families as text, read back by the rules of Prometheus's parser; requests that ended add to them."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, get_args

import pytest

from gateway.base.money import Tokens
from gateway.extras.metrics.counts import FAULTS, Metrics
from gateway.extras.metrics.families import Counter, Histogram
from gateway.ledger.call_records import Outcome
from tests.support.formats import EVERY_CALLER
from tests.support.records import make_call
from tests.support.rows import told_together

SECRET = "sk-ru-secret"
SERIES: Final = Path(__file__).with_name("metrics.txt")
"""Written anew by `WRITE_METRICS=1 python -m pytest tests/extras/metrics`."""
LINE = re.compile(r"([a-z_]+)(?:\{([^}]*)\})? (\S+)")


def test_operations_have_the_names_of_opentelemetry() -> None:
    known = [
        "chat",
        "embeddings",
        "text_completion",
        "generate_content",
        "rerank",
        "speech",
        "transcription",
    ]
    assert {one.operation for one in EVERY_CALLER} <= {*known}


class Routes:
    models: tuple[str, ...] = ("m",)
    providers: dict[str, object] = {}  # noqa: RUF012 - nobody writes to it


def make_gateway() -> Any:
    ledger = SimpleNamespace(open_holds=3, log_bytes=4096, writable=True)
    return SimpleNamespace(routes=Routes(), ledger=ledger, in_flight=2)


def count(status: int = 200, /, **facts: Any) -> dict[str, float]:
    """Note one call; return the series that are not 0, by name and labels."""
    metrics, gateway = Metrics(), make_gateway()
    plain: dict[str, Any] = {"surface": "messages", "started": time.monotonic() - 1.0}
    metrics.note_call(make_call(gateway=gateway, **plain | facts), status)
    return read(metrics, gateway)


def read(metrics: Metrics, gateway: Any) -> dict[str, float]:
    found = {}
    for line in metrics.freeze(gateway)().splitlines():
        if not line.startswith("#"):
            match = LINE.fullmatch(line)
            assert match, line
            if value := float(match[3]):
                found[f"{match[1]}{{{match[2] or ''}}}"] = value
    return found


OWN: Final = {
    "gateway_holds{}": 3,
    "gateway_in_flight{}": 2,
    "gateway_wal_bytes{}": 4096,
    "gateway_ledger_writable{}": 1,
}
VARYING: Final = re.compile(r"_bucket|_seconds_sum")


def test_each_request_counts_once_everywhere() -> None:
    """Only what is configured, and what is ours, becomes a label."""
    whole, new = SERIES.read_text(encoding="utf-8"), list[str]()
    with told_together() as row:
        for block in whole.split("\n== ")[1:]:
            heading, *lines = block.strip("\n").split("\n")
            facts = json.loads(heading)
            facts |= {"tokens": Tokens(*facts["tokens"])} if "tokens" in facts else {}
            private = {"request_id": SECRET, "failed": SECRET, "visit": {"path": SECRET}}
            found = count(facts.pop("status"), **facts, **private)
            told = [f"{name} {value:g}" for name, value in found.items() if name not in OWN]
            told = [one for one in told if not VARYING.search(one)]
            new.append("".join(f"{line}\n" for line in (f"\n== {heading}", *told)))
            with row(heading):
                assert "WRITE_METRICS" in os.environ or told == lines
                assert found == found | OWN
                assert SECRET not in str(found)
    if "WRITE_METRICS" in os.environ:
        SERIES.write_text(whole.partition("\n== ")[0] + "".join(new), encoding="utf-8")


def test_times_are_those_of_the_request() -> None:
    found = count(outcome="complete", provider="p", first_byte_ms=250, waited_seconds=0.9)
    sums = {name.partition("{")[0]: number for name, number in found.items() if "_sum" in name}
    assert 1.0 <= sums["gen_ai_server_request_duration_seconds_sum"] < 60
    assert sums["gen_ai_server_time_to_first_token_seconds_sum"] == 0.25
    overhead = sums["gen_ai_server_request_duration_seconds_sum"] - 0.9
    assert sums["gateway_overhead_seconds_sum"] == pytest.approx(overhead)


def test_every_outcome_is_somebodys_fault_or_nobodys() -> None:
    assert set(FAULTS) == set(get_args(Outcome))


def test_commits_and_lags_are_measured() -> None:
    metrics, gateway = Metrics(), make_gateway()
    metrics.note_commit(3, 0.003)
    metrics.note_lag(0.25)
    found = read(metrics, gateway)
    assert found["gateway_commit_seconds_sum{}"] == 0.003
    assert found["gateway_commit_requests_sum{}"] == 3
    assert found['gateway_loop_lag_seconds_bucket{le="0.5"}'] == 1


def text(family: Counter | Histogram) -> str:
    return "".join(family.freeze())


def test_a_counter_has_a_series_for_each_labels() -> None:
    family = Counter("gateway_x_total", "What x is", ("model", "status"))
    family.add(("a", "200"))
    family.add(("a", "200"), 2**70)
    family.add(('quo"te\\ and\nline', "-"))
    assert text(family) == (
        "# HELP gateway_x_total What x is\n"
        "# TYPE gateway_x_total counter\n"
        f'gateway_x_total{{model="a",status="200"}} {2**70 + 1}\n'
        'gateway_x_total{model="quo\\"te\\\\ and\\nline",status="-"} 1\n'
    )


def test_buckets_are_cumulative_and_include_their_bound() -> None:
    family = Histogram("gateway_s_seconds", "How long", (0.5, 1, 2.5), ("way",))
    for value in (0.25, 0.5, 0.75, 2.5, 100):
        family.observe(("up",), value)
    assert text(family).splitlines()[2:] == [
        'gateway_s_seconds_bucket{way="up",le="0.5"} 2',
        'gateway_s_seconds_bucket{way="up",le="1"} 3',
        'gateway_s_seconds_bucket{way="up",le="2.5"} 4',
        'gateway_s_seconds_bucket{way="up",le="+Inf"} 5',
        'gateway_s_seconds_sum{way="up"} 104',
        'gateway_s_seconds_count{way="up"} 5',
    ]


def test_what_is_frozen_does_not_change() -> None:
    """The text is made in another thread while requests go on."""
    counter, histogram = Counter("a", "b"), Histogram("c", "d", (1,))
    counter.add(())
    histogram.observe((), 1)
    frozen = counter.freeze(), histogram.freeze()
    counter.add(())
    histogram.observe((), 1)
    assert "a 1\n" in "".join(frozen[0])
    assert "c_count 1\n" in "".join(frozen[1])
