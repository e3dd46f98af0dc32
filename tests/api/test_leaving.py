"""Callers that leave, hang or send anything, and providers that die at any offset."""

from __future__ import annotations

import asyncio
import datetime as dt
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from tests.api.hostile import KINDS, SERVER, play_fuzz, send_raw
from tests.api.in_flight import open_inside
from tests.api.offsets import PAIRS, play_offsets
from tests.api.scene import ASKS, CLOSED_SECONDS, PATHS, Settled, read_all_settled, set_stage
from tests.api.slow import MIB, play_idlers, play_slow_bodies, play_slow_heads, play_stalled_readers
from tests.support import client, pairs, responses
from tests.support.chat import Used, estimate, estimate_sent, say, split_events
from tests.support.client import Call, Reply, request
from tests.support.config import Places
from tests.support.content import USED, Content
from tests.support.messages import STOP, frame, read_events
from tests.support.pairs import Provider, each_pair
from tests.support.process import CHAT
from tests.support.replies import (
    DONE,
    LAST_CHUNK,
    chunk,
    chunked,
    dumps,
    sse,
    sse_start,
    stream_head,
    text_chunks,
)
from tests.support.stage import Stage
from tests.support.upstream import End, ScriptedUpstream, Step, Wait
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


JUNK: Final = "JUNK"
MORE_TEXT: Final = {
    "chat": sse(chunk({"content": JUNK})),
    "messages": frame(
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": JUNK}}
    ),
    "responses": responses.frame(
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": JUNK}
    ),
}
SECOND_END: Final = {
    "chat": DONE,
    "messages": frame(STOP),
    "responses": responses.frame(
        {"type": "response.completed", "response": responses.make_response()}
    ),
}


@dataclass(slots=True)
class Conversation:
    """One connection of a caller, which carries one stream after the other."""

    stage: Stage
    call: Call
    caller: str
    model: str

    async def stream(self, ended: asyncio.Event) -> Reply:
        """Ask for a stream; `ended` is set once all of it has come."""
        await self._send("POST", PATHS[self.caller], ASKS[self.caller](self.model, stream=True))
        await self.call.read_head()
        reply = await self.call.read_all()
        ended.set()
        return reply

    async def check_quiet(self) -> None:
        """Check that the next bytes of the connection are the reply to the next request."""
        await self._send("GET", "/v1/models", None)
        await self.call.read_head()
        assert (await self.call.read_all()).json["object"] == "list"

    async def _send(self, method: str, path: str, body: object) -> None:
        headers = {"Content-Type": "application/json", "x-api-key": self.stage.key}
        await self.call.send(request(method, path, headers, dumps(body) if body else None))


def check_end(reply: Reply, caller: str) -> None:
    """Check that there is one terminal event and that it is the last."""
    assert (reply.status, reply.complete) == (200, True)
    assert JUNK.encode() not in reply.body
    if caller == "chat":
        events = split_events(reply.body)
        assert (events[-1], events.count(b"[DONE]")) == (b"[DONE]", 1)
    elif caller == "messages":
        said = read_events(reply.body)
        assert (said[-1], said.count(STOP)) == (STOP, 1)
    else:
        kinds = [one["type"] for one in read_events(reply.body)]
        assert (kinds[-1], kinds.count("response.completed")) == ("response.completed", 1)


def list_junk(provider: Provider) -> list[bytes]:
    return [
        SECOND_END[provider.dialect],
        MORE_TEXT[provider.dialect],
        MORE_TEXT[provider.dialect] + SECOND_END[provider.dialect],
        provider.error_event(JUNK),
        b": " + JUNK.encode() + b"\n\n",
        b"data: " + JUNK.encode() + b"\n\n",
        JUNK.encode() + b"\x00\xff",
    ]


async def converse(
    stage: Stage, caller: pairs.Caller, provider: Provider, place: str, all_junk: list[bytes]
) -> None:
    model = stage.fresh(provider.kind)
    *events, last = provider.events(Content("Hello."))
    start: list[Step] = [stream_head(), *map(chunked, events)]
    async with stage.gateway.connect() as call:
        conversation = Conversation(stage, call, caller.dialect, model)
        for junk in all_junk:
            ended = asyncio.Event()
            tails: dict[str, list[Step]] = {
                "in the same piece": [chunked(last + junk), LAST_CHUNK],
                "at once": [chunked(last), chunked(junk), LAST_CHUNK],
                "once the caller has its end": [chunked(last), Wait(ended), chunked(junk), LAST_CHUNK],
                "at once, in no framing": [chunked(last), b"zz\r\n" + junk],
            }  # fmt: skip
            stage.alpha.play([*start, *tails[place]])
            reply = await conversation.stream(ended)
            check_end(reply, caller.dialect)
            assert await stage.charge_nano(reply) == USED.cost_nano
            assert (await stage.settled(reply)).outcome == "complete"
            await asyncio.wait_for(stage.alpha.last.played.wait(), CLOSED_SECONDS)
            await conversation.check_quiet()


PLACES: Final = (
    "in the same piece",
    "at once",
    "once the caller has its end",
    "at once, in no framing",
)


@each_pair
@pytest.mark.parametrize("step", [len(PLACES), pytest.param(1, marks=pytest.mark.daily)])
async def test_nothing_reaches_the_caller_behind_the_end(
    stage: Stage, caller: pairs.Caller, provider: Provider, step: int
) -> None:
    """Each junk in each place is tried daily; a plain run has each junk in one."""
    for number, place in enumerate(PLACES):
        await converse(stage, caller, provider, place, list_junk(provider)[number % step :: step])


STEP = 29
TRANSLATED_STEP = 65
COARSE = 5
"""A plain run takes every fifth of those offsets, of the two pairs that translate nothing."""


@pytest.mark.parametrize(
    ("caller", "provider", "coarse"),
    [
        (*PAIRS[0], COARSE),
        (*PAIRS[-1], COARSE),
        *(pytest.param(*pair, 1, marks=pytest.mark.daily) for pair in PAIRS),
    ],
)
async def test_a_death_at_any_offset_is_never_a_silently_short_answer(
    caller: str, provider: str, coarse: int
) -> None:
    step = STEP if caller == provider else TRANSLATED_STEP
    played, wrong = await play_offsets(caller, provider, step * coarse)
    assert played > 50 // coarse
    assert not wrong, "\n".join(wrong)


COUNT = 50
RSS_BYTES_EACH = 0.75 * MIB


@pytest.mark.slow
async def test_stalled_readers_are_cut_and_cost_little() -> None:
    figures = await play_stalled_readers(COUNT, stall_seconds=1.5)
    print(figures)
    assert figures.rss_bytes_each <= RSS_BYTES_EACH
    assert figures.gone_after_seconds >= 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("play", "server", "heard"),
    [
        (play_slow_heads, "header_seconds", {b"", b"HTTP/1.1 408", b"HTTP/1.0 408"}),
        (play_slow_bodies, "body_idle_seconds = 5\nbody_total_seconds", {b"HTTP/1.1 408"}),
        (play_idlers, "header_seconds", {b""}),
    ],
)
async def test_who_does_not_finish_is_cut_at_the_deadline(
    play: Callable[..., Any], server: str, heard: set[bytes]
) -> None:
    figures, told = await play(COUNT, f"{server} = 0.8", 0.8)
    print(figures)
    assert {one[:12] for one in told} <= heard


COUNT_FUZZ = 300


@pytest.mark.slow
async def test_mutated_requests_do_no_harm() -> None:
    seed = dt.datetime.now(dt.UTC).date().toordinal()
    print("seed:", seed)
    report = await play_fuzz(seed, COUNT_FUZZ)
    assert report.statuses[200] > COUNT_FUZZ / 20, report.statuses
    assert report.statuses[400] > COUNT_FUZZ / 20, report.statuses


async def test_a_caller_who_leaves_before_100_continue_is_no_fault_of_ours() -> None:
    """The 100 cannot be sent to a caller who left, which is not an internal error (seed 1)."""
    async with set_stage(kinds=KINDS, server=SERVER) as stage:
        headers = {
            "Content-Type": "application/json",
            "x-api-key": stage.key,
            "Expect": "100-continue",
            "Content-Length": "5",
        }
        await send_raw(stage, request("POST", CHAT, headers), half_close=True)


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
