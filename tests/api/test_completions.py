"""The chat API over plain HTTP: replies, streams, and what passes through."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.scene import CLOSED_SECONDS
from tests.support import chat
from tests.support.chat import say
from tests.support.client import Call
from tests.support.config import Kind
from tests.support.content import Content, of_events
from tests.support.messages import ask, read_events
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, Provider
from tests.support.process import CHAT, MESSAGES
from tests.support.replies import (
    LAST_CHUNK,
    chunk,
    chunked,
    sse,
    sse_start,
    stream_head,
    text_chunks,
)
from tests.support.running import Launch
from tests.support.stage import Stage
from tests.support.upstream import Script, Wait


async def test_large_stream_to_a_slow_reader_is_held_back(stage: Stage) -> None:
    """Back-pressure: the gateway reads no 60 MB that the caller does not read."""
    model = stage.fresh("abort")
    piece = chunked(sse(chunk({"content": "x" * 60_000})))
    stage.alpha.play([*sse_start(text_chunks([], finish=None)), *[piece] * 1000])
    async with stage.chatting(say(model, stream=True)) as call:
        await call.read_head()
        exchange = await stage.alpha.wait_for(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(exchange.played.wait(), 0.5)
        call.reset()
    await asyncio.wait_for(exchange.closed.wait(), CLOSED_SECONDS)


PROVIDERS = [CHAT_PROVIDER, MESSAGES_PROVIDER]


KEEP_ALIVE_SECONDS = 0.1
QUIET = {"plain": Kind(("alpha",), 1), "messages": Kind(("alpha",), 1, dialects=("messages",))}
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def speak_slowly(provider: Provider, first: asyncio.Event, second: asyncio.Event) -> Script:
    """Be silent before the first event and in the middle, until the test has seen enough."""
    pieces = [chunked(event) for event in provider.events(Content("Hello!"))]
    return [stream_head(), Wait(first), *pieces[:3], Wait(second), *pieces[3:], LAST_CHUNK]


async def listen(call: Call, mark: bytes, first: asyncio.Event, second: asyncio.Event) -> bytes:
    """Return all that came, after a keep-alive before the first event and one in the middle."""
    read = await call.read_until(mark)
    assert call.status == 200
    assert b"data: {" not in read.replace(PING, b"")
    first.set()
    read += await call.read_until(b"Hel")
    heard = read.count(mark)
    while read.count(mark) == heard:
        read += await call.read_piece()
    second.set()
    return read + (await call.read_all()).body


async def test_silent_streams_are_kept_alive(launch: Launch, stage: Stage) -> None:
    """By pings to messages callers, before the first event too, and by comments to chat callers.

    The first events come before the last ones are sent: none waits for the next.
    """
    quiet = launch(server=f"comment_seconds = {KEEP_ALIVE_SECONDS}", kinds=QUIET)
    key = quiet.callers["rich"].key

    for path, mark in ((MESSAGES, PING), (CHAT, b"\n: ")):
        for provider in PROVIDERS:
            model = f"{provider.kind}/0"
            first, second = asyncio.Event(), asyncio.Event()
            stage.alpha.play(speak_slowly(provider, first, second))
            body = ask(model, stream=True) if path == MESSAGES else say(model, stream=True)
            async with quiet.gateway.chatting(key, body, path) as call:
                heard = await listen(call, mark, first, second)
            if path == MESSAGES:
                assert of_events(read_events(heard)) == Content("Hello!")
            else:
                assert chat.read_stream(heard, model).text == "Hello!"
