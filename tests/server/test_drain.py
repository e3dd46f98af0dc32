"""Drain: requests in flight may end, new ones are refused, the process ends in time.

How requests end that outlast the drain is in the table of endings (`tests/api/endings.py`).
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from tests.api.endings import REPORTED, Ending, forms, play
from tests.api.heard import check_last
from tests.api.in_flight import AMPLE_SECONDS, Happening, Scene, in_flight, open_scene
from tests.api.scene import ASKS, Settled, read_all_settled
from tests.support.chat import check_error, check_messages_error
from tests.support.client import Call, request
from tests.support.config import Places
from tests.support.process import CHAT, MESSAGES, GatewayProcess
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import until

MODEL: Final = "plain/0"
WHOLE: Final = Ending(play(), "complete", 200, REPORTED)


@pytest.fixture
async def scene(tmp_path: Path, places: Places, alpha: ScriptedUpstream) -> AsyncIterator[Scene]:
    happening = Happening(drain_seconds=AMPLE_SECONDS)
    async with open_scene(happening, tmp_path, places, alpha) as scene:
        yield scene


@pytest.fixture
def gateway(scene: Scene) -> GatewayProcess:
    assert scene.process is not None
    return scene.process


async def check_refused(scene: Scene, gateway: GatewayProcess, kept: Call) -> None:
    """Check that new requests get a 503, on new connections and on an old one."""
    body = ASKS["chat"](MODEL)
    check_error(await gateway.post(CHAT, scene.key, body), 503, "server_is_overloaded")
    reply = await gateway.post(MESSAGES, scene.key, body)
    check_messages_error(reply, 503, "overloaded_error")
    headers = {"Content-Type": "application/json", "x-api-key": scene.key}
    await kept.send(request("POST", CHAT, headers, json.dumps(body).encode()))
    await kept.read_head()
    check_error(await kept.read_all(), 503, "server_is_overloaded")


async def test_what_is_in_flight_ends_and_what_is_new_is_refused(
    scene: Scene, gateway: GatewayProcess
) -> None:
    rows = forms(WHOLE, WHOLE, WHOLE)
    async with in_flight(scene, rows, read=True) as requests, gateway.connect() as kept:
        await kept.send(request("GET", "/readyz"))
        assert (await kept.read_all()).status == 200
        scene.signal(signal.SIGTERM)
        while (await gateway.ask("GET", "/readyz")).status != 503:
            pass
        assert (await gateway.ask("GET", "/healthz")).status == 200
        await check_refused(scene, gateway, kept)
        scene.go_on.set()
        await asyncio.gather(*(one.end() for one in requests))
        for one in requests:
            check_last(one.reply, one.ending, one.caller, one.model, stream=one.stream)
    assert await scene.wait_for_exit() == 0, "it waits no longer than there is need"
    cost = REPORTED.cost_nano
    settled = read_all_settled(scene.books).values()
    assert list(settled) == [Settled("posted", "complete", cost, cost, 1)] * len(requests)


async def test_other_signals_end_nothing(scene: Scene, gateway: GatewayProcess) -> None:
    for number in (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        scene.signal(number)
        await until(lambda: f"{number.name} is ignored" in gateway.log, "the log line")  # noqa: B023
    reply = await gateway.ask("GET", "/readyz")
    assert reply.status == 200
    assert reply.headers["server"] == "gateway"


async def test_an_idle_gateway_stops_at_once(scene: Scene, gateway: GatewayProcess) -> None:
    async with gateway.connect():
        scene.signal(signal.SIGTERM)
        assert await scene.wait_for_exit() == 0
