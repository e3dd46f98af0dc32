"""Callers that leave, hang or send anything, and providers that die at any offset."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from functools import partial
from pathlib import Path

import pytest

from tests.api.hostile import play_fuzz
from tests.api.in_flight import open_inside
from tests.api.scene import Settled, read_all_settled
from tests.api.slow import MIB, Way, play_slow
from tests.support import client
from tests.support.chat import Used, estimate, estimate_sent, say
from tests.support.client import request
from tests.support.config import Places
from tests.support.process import CHAT
from tests.support.replies import dumps, sse_start, text_chunks
from tests.support.stage import Stage
from tests.support.upstream import End, ScriptedUpstream
from tests.support.waiting import until

PROMPT = "Wie spät ist es?"


async def test_caller_who_leaves_pays_for_what_came_if_that_is_more_than_was_held(
    stage: Stage,
) -> None:
    said = "word " * 2000
    stage.alpha.play([*sse_start(text_chunks([said], finish=None)), End.HANG])
    body = say(stage.fresh("abort"), PROMPT, stream=True)
    async with stage.chatting(body) as call:
        await call.read_until(said.encode())
        call.reset()
    request_id = call.headers["x-request-id"]
    delivered = Used(estimate_sent(stage.alpha.last.body), estimate(said)).cost_nano
    assert await stage.books.charge_nano(request_id) == delivered
    assert delivered > stage.books.hold_nano(request_id)


CROWD = 50
RSS_BYTES_EACH = 0.75 * MIB
REFUSED = b"HTTP/1.1 408 Request Timeout"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "setting", "heard"),
    [
        ("idle", "header_seconds", {b""}),
        ("head", "header_seconds", {b"", REFUSED, REFUSED.replace(b"1.1", b"1.0")}),
        ("reader", "stall_seconds", set()),
    ],
)
async def test_who_does_not_finish_is_cut_at_the_deadline(
    way: Way, setting: str, heard: set[bytes]
) -> None:
    """Whose body is slow is in `test_overload`."""
    figures, told = await play_slow(way, CROWD, f"{setting} = 0.8", 0.8, samples=20)
    print(figures)
    assert told <= heard
    assert figures.rss_bytes_each <= RSS_BYTES_EACH
    assert figures.gone_after_seconds >= 0.5


COUNT_FUZZ = 300


@pytest.mark.slow
async def test_mutated_requests_do_no_harm() -> None:
    seed = dt.datetime.now(dt.UTC).date().toordinal()
    print("seed:", seed)
    report = await play_fuzz(seed, COUNT_FUZZ)
    assert report.statuses[200] > COUNT_FUZZ / 20, report.statuses
    assert report.statuses[400] > COUNT_FUZZ / 20, report.statuses


async def test_a_stream_whose_caller_left_before_its_turn_reaches_no_provider(
    tmp_path: Path, places: Places, alpha: ScriptedUpstream
) -> None:
    """A large body waits for the thread, perhaps for longer than its caller does."""
    release = threading.Event()
    body = dumps(say("plain/0", stream=True) | {"metadata": {str(n): "" for n in range(5_000)}})
    async with open_inside(tmp_path, places, alpha) as scene, client.connect(scene.port) as other:
        gateway = scene.gateway
        assert gateway is not None
        thread = gateway.large_bodies
        async with asyncio.TaskGroup() as group, client.connect(scene.port) as call:
            group.create_task(thread.run(partial(release.wait, 30)))
            headers = {"Content-Type": "application/json", "x-api-key": scene.key}
            await call.send(request("POST", CHAT, headers, body))
            await until(lambda: thread._waiting, "the body to wait")
            call.reset()
            await other.send(request("GET", "/healthz"))
            await other.read_all()  # the gateway hears of the reset before
            release.set()
        await until(lambda: not (gateway.in_flight or gateway.ledger.open_holds), "the end")
        assert [*read_all_settled(scene.books).values()] == [
            Settled("voided", "caller_left", 0, 0, 0)
        ]
    assert alpha.exchanges == []
