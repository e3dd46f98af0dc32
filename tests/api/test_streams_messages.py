"""Messages streams over HTTP: passed on as they come, repaired, silent, broken."""

from __future__ import annotations

import asyncio

from tests.support.chat import Used, say
from tests.support.chat import read_stream as read_chat_stream
from tests.support.client import Call
from tests.support.config import Kind
from tests.support.messages import (
    ask,
    make_message,
    read_events,
)
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, Provider
from tests.support.process import CHAT, MESSAGES
from tests.support.replies import (
    LAST_CHUNK,
    chunked,
    json_reply,
    sse_reply,
    stream_head,
)
from tests.support.rows import each_row
from tests.support.running import Launch
from tests.support.stage import Stage
from tests.support.told import Told, of_chat, of_events
from tests.support.upstream import Script, Wait

PROVIDERS = [CHAT_PROVIDER, MESSAGES_PROVIDER]
each_provider = each_row("provider", PROVIDERS)


@each_provider
@each_row("path", [MESSAGES, CHAT])
async def test_stream_is_passed_on_as_it_comes(stage: Stage, provider: Provider, path: str) -> None:
    """No event waits for the next one."""
    go_on = asyncio.Event()
    *events, last = provider.events(Told("Hello"))
    head, tail = (map(chunked, part) for part in (events[:3], [*events[3:], last]))
    stage.alpha.play([stream_head(), *head, Wait(go_on), *tail, LAST_CHUNK])
    body = (ask if path == MESSAGES else say)(stage.fresh(provider.kind), stream=True)
    async with stage.gateway.chatting(stage.key, body, path) as call:
        await call.read_until(b"Hel")
        go_on.set()
        end = b"message_stop" if path == MESSAGES else b"[DONE]"
        assert end in (await call.read_all()).body


async def test_charge_is_on_the_ledger_before_the_last_event(stage: Stage) -> None:
    """When the caller gets `message_stop`, the charge is committed."""
    for provider in PROVIDERS:
        stage.alpha.play(provider.stream(Told("Hi")))
        before = stage.books.balance_nano("rich")
        body = ask(stage.fresh(provider.kind), stream=True)
        async with stage.gateway.chatting(stage.key, body, MESSAGES) as call:
            await call.read_until(b"message_stop")
            assert stage.books.balance_nano("rich") == before - Used(11, 7).cost_nano


@each_provider
async def test_error_before_the_first_event_is_a_status(stage: Stage, provider: Provider) -> None:
    stage.alpha.play(
        sse_reply([provider.error_event("no")], done=False), [stream_head(), LAST_CHUNK]
    )
    for status in (503 if provider is MESSAGES_PROVIDER else 502, 502):
        model = stage.fresh(provider.kind)
        reply = await stage.message(ask(model, stream=True))
        assert (reply.status, reply.json["type"]) == (status, "error")
        assert reply.json["request_id"] == reply.headers["request-id"]
        assert await stage.charge_nano(reply) == 0


@each_row("dialect", ["chat", "messages"])
async def test_provider_that_ignores_stream_is_streamed(stage: Stage, dialect: str) -> None:
    message = make_message("Hello!", stop="stop_sequence", stop_sequence="END")
    stage.alpha.play(json_reply(message))
    model = stage.fresh("messages")
    if dialect == "chat":
        reply = await stage.chat(say(model, stream=True))
        assert of_chat(read_chat_stream(reply.body, model)) == Told("Hello!", used=None)
    else:
        reply = await stage.message(ask(model, stream=True))
        events = read_events(reply.body)
        assert of_events(events) == Told("Hello!")
        assert events[-2]["delta"]["stop_sequence"] == "END"
        assert events[0]["message"]["model"] == model
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano


KEEP_ALIVE_SECONDS = 0.1
QUIET = {
    "plain": Kind(("alpha",), 2),
    "messages": Kind(("alpha",), 2, dialects=("messages",)),
}
PING = b'event: ping\ndata: {"type": "ping"}\n\n'


def speak_slowly(provider: Provider, first: asyncio.Event, second: asyncio.Event) -> Script:
    """Be silent before the first event and in the middle, until the test has seen enough."""
    pieces = [chunked(event) for event in provider.events(Told("Hello!"))]
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
    """By pings to messages callers, before the first event too, and by comments to chat callers."""
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
                assert of_events(read_events(heard)) == Told("Hello!")
            else:
                assert read_chat_stream(heard, model).text == "Hello!"
