"""Drain: after SIGTERM requests in flight may end, new ones are refused, and it ends in its time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import pytest
from scene_kit import ASKS, PATHS, Settled, read_all_settled, set_stage
from support.chat import Used, check_error, check_messages_error, estimate, read_broken_stream
from support.chat import read_stream as read_chat_stream
from support.client import Call, Reply, request
from support.config import Kind
from support.messages import read_broken_stream as read_broken_messages
from support.messages import read_stream as read_messages_stream
from support.process import CHAT, MESSAGES, GatewayProcess
from support.replies import completion, json_reply, sse_reply, sse_start, stream_chunks, text_chunks
from support.stage import Stage
from support.upstream import Exchange, Script, Wait
from support.waiting import until

PROMPT: Final = "Sag etwas."
LATE_PROMPT: Final = "Sag gleich etwas."
"""The provider says nothing before it is told to go on."""
PIECES: Final = ["Guten ", "Tag"]
TEXT: Final = "".join(PIECES)
REPORTED: Final = Used(11, 7)
DELIVERED: Final = Used(estimate(PROMPT), estimate(TEXT))
MODEL: Final = "plain/0"
KINDS: Final = {"plain": Kind(("alpha",), 1)}
DRAIN_SECONDS: Final = 2.0
"""As the test configuration says."""
AT_ONCE_SECONDS: Final = 0.5
HURRY_SECONDS: Final = 2.0
GRACE_SECONDS: Final = 15.0


@dataclass(frozen=True, slots=True)
class Scene:
    """A gateway with a provider that stops in the middle of every reply, until told to go on."""

    stage: Stage
    go_on: asyncio.Event

    @property
    def gateway(self) -> GatewayProcess:
        return self.stage.gateway

    def play(self, exchange: Exchange) -> Script:
        if not exchange.json.get("stream"):
            return [Wait(self.go_on), *json_reply(completion(TEXT))]
        start, rest = sse_start(text_chunks(PIECES, finish=None)), sse_reply(stream_chunks(PIECES))
        if LATE_PROMPT.encode() in exchange.body:
            return [Wait(self.go_on), *rest]
        return [*start, Wait(self.go_on), *rest[len(start) :]]

    async def ask(self, call: Call, caller: str, prompt: str, *, stream: bool) -> None:
        headers = {"Content-Type": "application/json", "x-api-key": self.stage.key}
        body = json.dumps(ASKS[caller](MODEL, prompt, stream=stream)).encode()
        await call.send(request("POST", PATHS[caller], headers, body))

    def stop(self) -> float:
        """SIGTERM, and when it was sent."""
        assert self.gateway.process is not None
        self.gateway.process.send_signal(signal.SIGTERM)
        return time.monotonic()

    async def wait_for_exit(self, seconds: float) -> int:
        process = self.gateway.process
        assert process is not None
        await until(lambda: process.poll() is not None, "the gateway to exit", seconds=seconds)
        code: int = process.returncode
        return code


@dataclass(slots=True)
class InFlight:
    """A request that the gateway is at work on, and of a stream what came so far."""

    call: Call
    caller: str
    stream: bool
    late: bool = False
    seen: bytes = b""

    async def begin(self, scene: Scene) -> None:
        count = len(scene.stage.alpha.exchanges) + 1
        prompt = LATE_PROMPT if self.late else PROMPT
        await scene.ask(self.call, self.caller, prompt, stream=self.stream)
        await scene.stage.alpha.wait_for(count)
        if self.stream and not self.late:
            await self.call.read_head()
            while PIECES[-1].encode() not in self.seen:
                self.seen += await self.call.read_piece()

    async def end(self) -> Reply:
        rest = await self.call.read_all()
        rest.body = self.seen + rest.body
        return rest


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with set_stage(kinds=KINDS) as stage:
        made = Scene(stage, asyncio.Event())
        stage.alpha.always(made.play)
        yield made


@contextlib.asynccontextmanager
async def in_flight(scene: Scene) -> AsyncIterator[list[InFlight]]:
    """Of both callers a JSON request, a stream that has begun, and one that has not."""
    async with contextlib.AsyncExitStack() as stack:
        begun = []
        for caller in ("chat", "messages"):
            for stream, late in ((False, False), (True, False), (True, True)):
                call = await stack.enter_async_context(scene.gateway.connect())
                begun.append(InFlight(call, caller, stream, late))
        for one in begun:
            await one.begin(scene)
        yield begun


def check_whole(one: InFlight, reply: Reply) -> None:
    assert (reply.status, reply.complete) == (200, True)
    if one.stream:
        (read_chat_stream if one.caller == "chat" else read_messages_stream)(reply.body, MODEL)
    assert PIECES[-1].encode() in reply.body


def check_cut_off(one: InFlight, reply: Reply) -> None:
    """An event in the stream's dialect where it had begun, else a 503; always a clean end."""
    assert reply.complete
    if one.seen and one.caller == "chat":
        said = read_broken_stream(reply.body, MODEL, "server_is_overloaded")
        assert said.text == TEXT
    elif one.seen:
        read_broken_messages(reply.body, MODEL, "overloaded_error", reply.request_id)
    elif one.caller == "chat":
        check_error(reply, 503, "server_is_overloaded")
    else:
        check_messages_error(reply, 503, "overloaded_error")


def expect_cut_off(one: InFlight) -> Settled:
    cost = DELIVERED.cost_nano if one.seen else 0
    return Settled("posted" if cost else "voided", "shutdown", cost, cost, int(cost > 0))


async def check_refused(scene: Scene, kept: Call) -> None:
    """New requests get a 503, on new connections and on one that was there."""
    body = ASKS["chat"](MODEL)
    check_error(await scene.gateway.post(CHAT, scene.stage.key, body), 503, "server_is_overloaded")
    reply = await scene.gateway.post(MESSAGES, scene.stage.key, body)
    check_messages_error(reply, 503, "overloaded_error")
    await scene.ask(kept, "chat", PROMPT, stream=True)
    await kept.read_head()
    check_error(await kept.read_all(), 503, "server_is_overloaded")


async def status_of(scene: Scene, path: str) -> int:
    return (await scene.gateway.ask("GET", path)).status


async def test_what_is_in_flight_ends_and_what_is_new_is_refused(scene: Scene) -> None:
    async with in_flight(scene) as begun, scene.gateway.connect() as kept:
        await kept.send(request("GET", "/readyz"))
        assert (await kept.read_all()).status == 200
        signalled = scene.stop()
        while await status_of(scene, "/readyz") != 503:
            assert time.monotonic() - signalled < AT_ONCE_SECONDS
        assert await status_of(scene, "/healthz") == 200
        await check_refused(scene, kept)
        scene.go_on.set()
        for one in begun:
            check_whole(one, await one.end())
    assert await scene.wait_for_exit(DRAIN_SECONDS) == 0
    assert time.monotonic() - signalled < DRAIN_SECONDS, "it waits no longer than there is need"
    rows = read_all_settled(scene.stage.books).values()
    cost = REPORTED.cost_nano
    assert list(rows) == [Settled("posted", "complete", cost, cost, 1)] * len(begun)


@pytest.mark.parametrize("signals", [1, 2])
async def test_what_does_not_end_in_time_is_cut_off_and_settled(scene: Scene, signals: int) -> None:
    """By one error in its dialect: at the end of the drain, or at a second SIGTERM."""
    async with in_flight(scene) as begun:
        signalled = scene.stop()
        if signals == 2:
            await until(lambda: "stopping" in scene.gateway.log, "the first signal to be heard")
            signalled = scene.stop()
        replies = [await one.end() for one in begun]
        told_seconds = time.monotonic() - signalled
        upstreams = [one.closed.wait() for one in scene.stage.alpha.exchanges]
        await asyncio.wait_for(asyncio.gather(*upstreams), 1)
    assert await scene.wait_for_exit(GRACE_SECONDS) == 0
    gone_seconds = time.monotonic() - signalled
    for one, reply in zip(begun, replies, strict=True):
        check_cut_off(one, reply)
        row = read_all_settled(scene.stage.books)[reply.request_id]
        assert row == expect_cut_off(one)
        assert scene.gateway.log.count(reply.request_id) == 1
    if signals == 1:
        assert DRAIN_SECONDS - 0.1 <= told_seconds < gone_seconds < DRAIN_SECONDS + GRACE_SECONDS
    else:
        assert gone_seconds < HURRY_SECONDS


async def test_an_idle_gateway_stops_at_once(scene: Scene) -> None:
    async with scene.gateway.connect():
        scene.stop()
        assert await scene.wait_for_exit(HURRY_SECONDS) == 0
