"""Drain: requests in flight may end, new ones are refused, the process ends in time."""

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

from tests.api.scene import ASKS, PATHS, Settled, read_all_settled, set_stage
from tests.support.chat import (
    SENT,
    Used,
    check_error,
    check_messages_error,
    estimate,
    read_broken_stream,
)
from tests.support.chat import read_stream as read_chat_stream
from tests.support.client import Call, Reply, request
from tests.support.config import Kind
from tests.support.messages import read_broken_stream as read_broken_messages
from tests.support.messages import read_stream as read_messages_stream
from tests.support.process import CHAT, MESSAGES, GatewayProcess
from tests.support.replies import (
    completion,
    json_reply,
    sse_reply,
    sse_start,
    stream_chunks,
    text_chunks,
)
from tests.support.stage import Stage
from tests.support.upstream import Exchange, Script, Wait
from tests.support.waiting import until

PROMPT: Final = "Sag etwas."
LATE_PROMPT: Final = "Sag gleich etwas."
"""A prompt to which the provider sends nothing until the test lets it go on."""
PIECES: Final = ["Guten ", "Tag"]
TEXT: Final = "".join(PIECES)
REPORTED: Final = Used(11, 7)
DELIVERED: Final = Used(SENT, estimate(TEXT))
MODEL: Final = "plain/0"
KINDS: Final = {"plain": Kind(("alpha",), 1)}
DRAIN_SECONDS: Final = 1.0
AMPLE_SECONDS: Final = 300.0
"""A drain that does not end while a test waits."""
EXIT_SECONDS: Final = 60.0
"""Limit for an exit, longer than it takes on a busy machine."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A gateway with a provider that stops in the middle of every reply until told to go on."""

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

    def stop(self) -> None:
        """Send SIGTERM."""
        assert self.gateway.process is not None
        self.gateway.process.send_signal(signal.SIGTERM)

    async def wait_for_exit(self) -> int:
        process = self.gateway.process
        assert process is not None
        await until(lambda: process.poll() is not None, "the gateway to exit", seconds=EXIT_SECONDS)
        code: int = process.returncode
        return code


@dataclass(slots=True)
class InFlight:
    """A request in flight, with the part of its stream that has arrived."""

    call: Call
    caller: str
    stream: bool
    late: bool = False
    seen: bytes = b""
    sent: bytes = b""
    """What the provider got."""

    async def begin(self, scene: Scene) -> None:
        count = len(scene.stage.alpha.exchanges) + 1
        prompt = LATE_PROMPT if self.late else PROMPT
        await scene.ask(self.call, self.caller, prompt, stream=self.stream)
        await scene.stage.alpha.wait_for(count)
        self.sent = scene.stage.alpha.exchanges[count - 1].body
        if self.stream and not self.late:
            await self.call.read_head()
            while PIECES[-1].encode() not in self.seen:
                self.seen += await self.call.read_piece()

    async def end(self) -> Reply:
        rest = await self.call.read_all()
        rest.body = self.seen + rest.body
        return rest


@contextlib.asynccontextmanager
async def set_scene(drain_seconds: float) -> AsyncIterator[Scene]:
    async with set_stage(kinds=KINDS, server=f"drain_seconds = {drain_seconds}") as stage:
        made = Scene(stage, asyncio.Event())
        stage.alpha.always(made.play)
        yield made


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with set_scene(AMPLE_SECONDS) as made:
        yield made


@contextlib.asynccontextmanager
async def in_flight(scene: Scene) -> AsyncIterator[list[InFlight]]:
    """Start a JSON request, a begun stream and an unbegun one, for callers of both dialects."""
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
    """Check for an error event if the stream had begun, else a 503, and for a clean end."""
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
    cost = DELIVERED.of(one.sent).cost_nano if one.seen else 0
    return Settled("posted" if cost else "voided", "shutdown", cost, cost, int(cost > 0))


async def check_refused(scene: Scene, kept: Call) -> None:
    """Check that new requests get a 503, on new connections and on an old one."""
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
        scene.stop()
        while await status_of(scene, "/readyz") != 503:
            pass
        assert await status_of(scene, "/healthz") == 200
        await check_refused(scene, kept)
        scene.go_on.set()
        for one in begun:
            check_whole(one, await one.end())
    assert await scene.wait_for_exit() == 0, "it waits no longer than there is need"
    rows = read_all_settled(scene.stage.books).values()
    cost = REPORTED.cost_nano
    assert list(rows) == [Settled("posted", "complete", cost, cost, 1)] * len(begun)


async def test_other_signals_end_nothing() -> None:
    async with set_stage(kinds=KINDS) as stage:
        assert stage.gateway.process is not None
        for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
            stage.gateway.process.send_signal(number)
            await until(lambda: f"{number.name} is ignored" in stage.gateway.log, "the log line")  # noqa: B023
        reply = await stage.gateway.ask("GET", "/readyz")
        assert reply.status == 200
        assert reply.headers["server"] == "gateway"


@pytest.mark.parametrize(("signals", "drain_seconds"), [(1, DRAIN_SECONDS), (2, AMPLE_SECONDS)])
async def test_what_does_not_end_in_time_is_cut_off_and_settled(
    signals: int, drain_seconds: float
) -> None:
    """Each request ends with one error in its dialect, after the drain or at a second SIGTERM."""
    async with set_scene(drain_seconds) as scene, in_flight(scene) as begun:
        signalled = time.monotonic()
        scene.stop()
        if signals == 2:
            await until(lambda: "stopping" in scene.gateway.log, "the first signal to be heard")
            scene.stop()
        replies = [await one.end() for one in begun]
        told_seconds = time.monotonic() - signalled
        upstreams = [one.closed.wait() for one in scene.stage.alpha.exchanges]
        await asyncio.gather(*upstreams)
        assert await scene.wait_for_exit() == 0
        for one, reply in zip(begun, replies, strict=True):
            check_cut_off(one, reply)
            row = read_all_settled(scene.stage.books)[reply.request_id]
            assert row == expect_cut_off(one)
            assert scene.gateway.log.count(reply.request_id) == 1
    assert signals == 2 or told_seconds >= DRAIN_SECONDS


async def test_an_idle_gateway_stops_at_once(scene: Scene) -> None:
    async with scene.gateway.connect():
        scene.stop()
        assert await scene.wait_for_exit() == 0
