"""The delivery of one reply: when its head leaves, what its provider may send, and how it ends."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.api.bodies import count_bytes, count_reply
from gateway.api.delivery import JsonDelivery, StreamDelivery
from gateway.api.lifecycle import Lifecycle, Phase
from gateway.api.sink import Sink
from gateway.base.errors import STOPPED, Overloaded, UndeliverableReply, UpstreamError
from gateway.base.money import Tokens
from gateway.base.turns import LargeBodies, spawn
from gateway.dialects.exchanges import MAX_REPLY_ELEMENTS
from gateway.dialects.wire.records import Reply
from gateway.dialects.wire.sse import BOM
from gateway.upstream.receivers import Wants
from tests.api.test_shares import MIB, make_call, make_gateway
from tests.dialects.chat.kit import (
    BEGIN,
    DONE,
    END,
    HI,
    INPUT_ESTIMATE,
    USAGE,
    WHOLE,
    dump,
    make_context,
    ours,
)
from tests.support.formats import EXCHANGES
from tests.support.replies import completion
from tests.support.rows import each_row

LOOP_BYTES = 1 << 19

JSON = dump(completion("Hi", usage=USAGE) | {"model": "theirs"})


@dataclass(eq=False)
class Scene(Sink):
    """One reply: a provider that sends pieces, and a caller, whose parts write down what happens."""

    pieces: tuple[bytes, ...]
    stream: bool = True
    upstream: str = "chat"
    begins: Callable[[], Awaitable[None]] | None = None
    done: list[str] = field(default_factory=list)
    large_bodies: LargeBodies = field(default_factory=LargeBodies)
    call: Any = None
    work: Any = None
    sent: bytes = b""
    life: Lifecycle = field(default_factory=Lifecycle)
    delivery: Any = field(init=False)

    def __post_init__(self) -> None:
        self.life.advance(Phase.SENT)
        self.life.advance(Phase.ANSWERED)
        context = make_context()
        context = replace(context, request=replace(context.request, stream=self.stream))
        bill = SimpleNamespace(
            raise_to=lambda _: self.done.append("raise"),
            note_first_byte=lambda: self.done.append("first byte"),
        )
        call = make_call(make_gateway(1), 1)
        call.gateway.large_bodies = self.large_bodies
        self.call = call
        self.work = work = SimpleNamespace(
            request=context.request, bill=bill, call=call, edit=None, keep=None
        )
        provider = SimpleNamespace(note_alive=lambda _: self.done.append("alive"))
        route = SimpleNamespace(
            exchange=EXCHANGES["chat"][self.upstream],
            provider=provider,
            target=SimpleNamespace(upstream_model="large"),
        )
        parts: tuple[Any, Any, Any, Any] = (work, self.life, route, context)
        if self.stream:
            pipeline = route.exchange.open_stream(context)
            self.delivery = StreamDelivery(*parts, self, pipeline, True)
        else:
            self.delivery = JsonDelivery(*parts)

    async def deliver(self) -> None:
        """Hand over the pieces as a connection does."""
        for piece in self.pieces:
            wants = self.delivery.receive(piece)
            if wants is Wants.NOTHING:
                self.done.append("stop")
                return
            if wants is Wants.ROOM:
                await self.delivery.unblock()
        self.delivery.end()

    async def begin(self) -> None:
        if self.begins is not None:
            await self.begins()
        self.done.append("head")

    def send(self, data: bytes) -> bool:
        assert data, "what sends nothing must not put a comment off"
        self.sent += data
        return self.life.phase is Phase.STREAMING

    async def unblock(self) -> None:
        self.done.append("ready")

    async def run(self) -> None:
        await self.deliver()
        await self.delivery.process_rest()


async def test_the_hold_is_raised_before_the_head_leaves() -> None:
    """Others are refused before the caller can have read anything."""
    scene = Scene((BEGIN, HI, END + DONE))
    await scene.run()
    assert scene.done == ["alive", "raise", "head", "first byte", "stop"]
    assert scene.life.phase is Phase.STREAMING
    assert scene.sent == ours(BEGIN + HI + END), "the last bytes wait for the charge"
    assert scene.delivery.complete


async def test_comments_before_the_first_event_are_dropped() -> None:
    scene = Scene((b": wait\n\n", BEGIN, b": wait\n\n", END + DONE))
    await scene.run()
    assert scene.sent == ours(BEGIN) + b": wait\n\n" + ours(END)


async def test_a_stream_that_comes_in_one_read_begins_by_hand() -> None:
    """Nobody asks for `unblock` behind the end of a body; the relay calls `begin`."""

    class Rushing(Scene):
        async def deliver(self) -> None:
            self.delivery.receive(WHOLE)

    scene = Rushing(())
    await scene.run()
    assert "head" not in scene.done
    for _ in range(2):
        await scene.delivery.begin()
    assert scene.done.count("head") == 1


async def test_a_caller_that_is_gone_ends_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tick decides whether its provider is read on."""

    async def reset(*_: object) -> None:
        raise ConnectionResetError

    scene = Scene((BEGIN, HI, END + DONE), begins=reset)
    await scene.run()
    assert (scene.life.phase, scene.delivery.complete) == (Phase.ANSWERED, True)
    assert "first byte" not in scene.done
    monkeypatch.setattr(Scene, "unblock", reset)
    monkeypatch.setattr(Scene, "send", lambda *_: False)
    scene = Scene((BEGIN, HI, END + DONE))
    await scene.run()
    assert (scene.life.phase, scene.delivery.complete) == (Phase.STREAMING, True)


@pytest.mark.parametrize("before", [b"\n ", BOM])
@pytest.mark.parametrize("size", [1, 7, len(JSON)])
async def test_json_where_a_stream_was_asked_for_becomes_the_stream(
    before: bytes, size: int
) -> None:
    body = before + JSON
    scene = Scene(tuple(body[at : at + size] for at in range(0, len(body), size)))
    await scene.run()
    assert scene.sent.startswith(b"data: {")
    assert scene.delivery.complete
    assert scene.delivery.measure().tokens.output == USAGE["completion_tokens"]


async def test_a_json_reply_is_held_back_whole() -> None:
    scene = Scene((JSON[:9], JSON[9:]), stream=False)
    await scene.run()
    assert (scene.sent, scene.done) == (b"", ["alive"])
    assert scene.delivery.take_last() == ours(JSON)


@each_row(
    ("stream", "upstream", "mib"), [(False, "chat", 64), (True, "chat", 64), (True, "messages", 8)]
)
def test_a_reply_beyond_all_measure_ends_the_delivery_and_is_owed(
    *, stream: bool, upstream: str, mib: int
) -> None:
    """It may be smaller where its events are translated."""
    scene = Scene((), stream, upstream)
    for piece in [b'{"a":"'.ljust(MIB), *[b"x" * MIB] * (mib - 1)]:
        scene.delivery.receive(piece)
    with pytest.raises(UndeliverableReply):
        scene.delivery.receive(b"x")
    assert not scene.delivery.complete
    assert scene.delivery.measure().tokens == Tokens(INPUT_ESTIMATE, output=1600)


def test_a_page_beyond_all_measure_ends_the_delivery_and_is_free() -> None:
    """No work was done for it."""
    scene = Scene((), stream=False)
    for piece in [b"\n<html>".ljust(MIB), *[b"x" * MIB] * 63]:
        scene.delivery.receive(piece)
    with pytest.raises(UpstreamError) as raised:
        scene.delivery.receive(b"x")
    assert type(raised.value) is UpstreamError
    assert not scene.delivery.complete
    assert scene.delivery.measure().tokens == Tokens(INPUT_ESTIMATE)


@each_row("stream", [False, True])
async def test_a_reply_of_too_many_values_cannot_be_passed_on_but_is_paid(*, stream: bool) -> None:
    """It was made, so what one too large costs is charged; it is not parsed."""
    scene = Scene((b'{"a":[' + b"0," * MAX_REPLY_ELEMENTS + b"0]}",), stream)
    with pytest.raises(UndeliverableReply):
        await scene.run()
    assert (scene.sent, scene.delivery.complete) == (b"", False)
    assert scene.delivery.measure().tokens == Tokens(INPUT_ESTIMATE, output=1600)
    scene.large_bodies.close()


async def test_a_large_reply_is_in_memory_once() -> None:
    scene = Scene((), stream=False)
    body = JSON.replace(b"Hi", b"x" * 8_000_000)
    tracemalloc.start()
    try:
        for at in range(0, len(body), 65536):
            scene.delivery.receive(body[at : at + 65536])
        collected, _ = tracemalloc.get_traced_memory()
        scene.delivery._read()
        written, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert b"theirs" not in scene.delivery.take_last(), "it is another text than the one that came"
    assert max(collected, written) < 1.5 * len(body)


@each_row("stream", [False, True])
@each_row("large", [False, True])
async def test_a_large_json_reply_is_read_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch, *, stream: bool, large: bool
) -> None:
    """Meanwhile the hold is not raised: the pipeline is in another thread."""
    padding = b" " * (LOOP_BYTES + large - len(JSON))
    scene = Scene((JSON + padding,), stream)
    threads: list[str] = []

    async def run_large(_: object, function: Callable[[], bytes]) -> bytes:
        def watched() -> bytes:
            threads.append(threading.current_thread().name.partition("_")[0])
            if stream:
                scene.delivery.raise_hold()
            return function()

        return await scene.large_bodies.run(watched)

    monkeypatch.setattr("gateway.api.delivery.run_large", run_large)
    await scene.run()
    assert threads == ["large-bodies"] * large
    assert "raise" not in scene.done
    assert scene.delivery.complete
    scene.call.gateway.large_bodies.close()


@each_row("is_large", [False, True])
async def test_an_edit_that_may_repeat_a_large_request_is_made_beside_the_loop(
    *, is_large: bool
) -> None:
    scene, threads = Scene((JSON,), stream=False), list[str]()

    def edit(reply: Reply) -> None:
        threads.append(threading.current_thread().name.partition("_")[0])
        reply.body = b"edited"

    scene.work.edit, scene.work.request = edit, SimpleNamespace(stream=False, is_large=is_large)
    await scene.run()
    assert threads == ["large-bodies" if is_large else "MainThread"]
    assert scene.delivery.take_last() == b"edited"
    scene.large_bodies.close()


@each_row("is_over", [False, True])
async def test_a_reply_is_read_no_further_while_its_account_has_no_room(*, is_over: bool) -> None:
    """It goes on once there is room, or the attempt is over. One that is whole counts until it left."""
    large = JSON.replace(b"Hi", b"x" * MIB)
    scene = Scene((large[:MIB], large[MIB:]), stream=False)
    other = make_call(scene.call.gateway, 1)
    count_reply(other, MIB)
    running = spawn(scene.run(), name="delivery")
    await asyncio.sleep(0)
    scene.delivery.tick()  # there is no room yet
    await asyncio.sleep(0)
    assert (scene.call.reply_bytes, running.done()) == (MIB, False)
    if not is_over:
        count_bytes(other, -other.buffered_bytes)
    while not running.done():
        scene.life.ended_by = Overloaded(STOPPED) if is_over else None
        scene.delivery.tick()
        await asyncio.sleep(0)
    assert scene.call.reply_bytes == len(scene.delivery.take_last()) > MIB
    scene.large_bodies.close()


async def test_the_bytes_of_a_stream_that_nobody_reads_count_until_they_are_read() -> None:
    held: list[int] = []

    class Unread(Scene):
        unread_bytes = MIB

        def send(self, data: bytes) -> bool:
            return super().send(data) and False

        async def unblock(self) -> None:
            held.append(self.call.buffered_bytes)

    scene = Unread((BEGIN, HI, END + DONE))
    await scene.run()
    assert held == [MIB], "what comes with the end is counted by who sends the rest"
    assert scene.call.buffered_bytes == 0


async def test_the_beginning_of_a_long_event_counts_until_it_is_whole() -> None:
    scene = Scene((BEGIN, b'data: {"x": "' + b"x" * (MIB // 2)))
    with pytest.raises(UpstreamError):
        await scene.run()
    assert scene.call.buffered_bytes == 0
    scene = Scene((BEGIN,))
    scene.delivery.receive(BEGIN)
    scene.delivery.receive(HI[:-2] + b" " * (MIB // 2))
    assert scene.call.buffered_bytes > MIB // 2
    scene.delivery.receive(b"\n\n")
    assert scene.call.buffered_bytes == 0


@each_row("stream", [True, False])
async def test_only_a_reply_that_leaves_whole_is_delivered_without_output(*, stream: bool) -> None:
    """A JSON reply sent as a stream is delivered event by event: the events tell what its caller owes."""
    scene = Scene((JSON.replace(b"Hi", b""),), stream=stream)
    await scene.run()
    assert scene.delivery.delivered is not stream
    assert scene.delivery.complete
