"""`GET /metrics` over a socket, and the dashboard for Grafana, which asks for what they tell."""

from __future__ import annotations

import asyncio
import re
import socket
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from gateway.base.process import ExitCode
from gateway.extras.metrics.counts import Metrics
from gateway.extras.metrics.dashboard import make_dashboard
from gateway.extras.metrics.families import CONTENT_TYPE
from tests.extras.metrics.test_metrics import make_gateway
from tests.support.chat import say
from tests.support.client import Call, Reply, request
from tests.support.config import NO_LIMITS
from tests.support.process import GatewayProcess, free_port
from tests.support.replies import completion, json_reply
from tests.support.rows import each_row
from tests.support.running import Launch
from tests.support.stage import Stage

MAX_NAMES = 20
NAME = re.compile(r"^# TYPE ([a-z_]+) (counter|gauge|histogram)$", re.MULTILINE)


async def scrape(port: int, path: str = "/metrics") -> Reply:
    call = await Call.open(port)
    await call.send(request("GET", path))
    reply = await call.read_all()
    await call.close()
    return reply


async def test_a_request_is_in_the_next_scrape(launch: Launch, stage: Stage) -> None:
    port = free_port()
    running = launch(limits=f'{NO_LIMITS}\n[metrics]\nlisten = "127.0.0.1:{port}"')
    stage.alpha.always(json_reply(completion()))
    key = running.callers["rich"].key
    ask = partial(running.gateway.chat, key)
    await asyncio.gather(*(ask(say("plain/0")) for _ in range(3)))
    refused = await ask(say("no-such-model"))
    assert refused.status == 400
    reply = await scrape(port)
    assert (reply.status, reply.headers["content-type"]) == (200, CONTENT_TYPE)
    lines = reply.body.decode().splitlines()
    served = 'surface="chat/completions",model="plain/0",provider="plain-0-alpha",status="200"'
    assert f'gateway_requests_total{{{served},error_type=""}} 3' in lines
    assert 'gateway_refused_total{reason="model_not_found"} 1' in lines
    assert "gateway_holds 0" in lines
    assert any(re.fullmatch(r"gateway_commit_seconds_count [1-9]\d*", line) for line in lines)
    assert 'gateway_breaker_open{provider="plain-0-alpha"} 0' in lines
    assert not any(key.encode() in reply.body for key in (key, running.callers["rich"].key_id))
    assert (await scrape(running.gateway.port)).status == 404, "callers cannot reach it"
    assert (await scrape(port, "/v1/models")).status == 404, "nor what is theirs be reached there"


async def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taking:
        taken = taking.getsockname()[1]
        other = GatewayProcess(tmp_path, free_port())
        other.config.write_text(f'[server]\nport = 0\n[metrics]\nlisten = "127.0.0.1:{taken}"\n')
        ended = await other.run_apart("serve")
    assert ended.code == ExitCode.UNAVAILABLE
    assert f"cannot serve metrics on 127.0.0.1:{taken}: Address already in use" in ended.err
    assert "set [metrics] listen in gateway.toml" in ended.err


async def test_the_address_of_callers_blames_no_program_alone(tmp_path: Path) -> None:
    """The file is valid: where systemd passes sockets, the address of [server] is not used."""
    other = GatewayProcess(tmp_path, port := free_port())
    other.config.write_text(f'[server]\nport = {port}\n[metrics]\nlisten = "127.0.0.1:{port}"\n')
    ended = await other.run_apart("serve")
    assert ended.code == ExitCode.UNAVAILABLE
    assert "another program, or another table of gateway.toml, listens there" in ended.err


def read_families() -> dict[str, str]:
    return dict(NAME.findall(Metrics().freeze(make_gateway())()))


def test_there_are_few_names() -> None:
    assert 10 < len(read_families()) <= MAX_NAMES


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
