"""The streams of `tests/streams` over sockets, in many slicings, to callers of both dialects."""

from __future__ import annotations

import json
import random
from typing import Any

from tests import streams
from tests.streams import Stream, drop_comments, get_stream
from tests.support import chat, messages
from tests.support.chat import estimate, say
from tests.support.client import Reply
from tests.support.messages import ask, read_events
from tests.support.replies import sliced_reply
from tests.support.rows import each_row
from tests.support.said import accumulate
from tests.support.stage import Stage
from tests.support.told import of_chat, of_events

MODELS = {"chat": "streams/0", "messages": "message-streams/0"}
"""Models by the provider's dialect. Complete streams never fail here, so one serves all."""
PASSING = [one for one in streams.MESSAGES if not one.name.startswith("imitation")]


async def send(stage: Stage, caller: str, stream: Stream, model: str = "", **extra: Any) -> Reply:
    """Ask as a caller of that dialect; the provider sends the stream in random slices."""
    sizes = [random.choice((1, 2, 3, 7, 50, 200, 1500)) for _ in stream.body]
    stage.alpha.play(sliced_reply(stream.body, sizes))
    model = model or MODELS[stream.dialect]
    if caller == "chat":
        return await stage.chat(say(model, stream=True, **extra))
    return await stage.message(ask(model, stream=True))


def check_head(reply: Reply) -> None:
    assert (reply.status, reply.complete) == (200, True)
    assert reply.headers["content-type"].startswith("text/event-stream")


@each_row("caller", ["chat", "messages"])
@streams.each(*streams.CHAT, *streams.MESSAGES)
async def test_a_stream_says_the_same_and_is_charged(
    stage: Stage, stream: Stream, caller: str
) -> None:
    """What each dialect's rules ask of it is checked in `tests.dialects`, in all slicings."""
    model = MODELS[stream.dialect]
    is_chat = stream.dialect == "chat"
    expected = of_chat(accumulate(stream.objects)) if is_chat else of_events(stream.objects)
    reply = await send(stage, caller, stream, stream_options={"include_usage": True})
    check_head(reply)
    if caller == "chat":
        told = of_chat(chat.read_stream(reply.body, model, usage_asked=True))
    else:
        told = of_events(read_events(drop_comments(reply.body)))
    assert told == expected
    assert told.used is not None
    assert await stage.charge_nano(reply) == told.used.cost_nano
    row = await stage.settled(reply)
    assert (row.state, row.outcome, row.estimated) == ("posted", "complete", False)
    assert row.input + row.cached_input + row.cache_write == told.used.prompt
    assert row.output == told.used.completion


def rename(stream: Stream) -> bytes:
    """Return what a messages caller must get: the provider's bytes with our name of the model.

    The last event is the gateway's own, as it waits for the charge: it is not padded with spaces.
    """
    start = stream.objects[0]["message"]
    theirs = b'"model":"%b"' % start["model"].encode()
    assert stream.body.count(theirs) == 1
    body = stream.body.replace(theirs, b'"model":"%b"' % MODELS["messages"].encode())
    return body.removesuffix(stream.blocks[-1]) + messages.frame(messages.STOP)


@streams.each(*PASSING)
async def test_messages_stream_passes_byte_for_byte_but_for_the_model(
    stage: Stage, stream: Stream
) -> None:
    reply = await send(stage, "messages", stream)
    assert reply.body == rename(stream)


@each_row("caller", ["chat", "messages"])
@streams.each(*streams.FAILING)
async def test_failing_stream_ends_with_one_error_and_is_paid_as_far_as_it_came(
    stage: Stage, stream: Stream, caller: str
) -> None:
    """The error is the gateway's own event, with the provider's message; nothing follows it."""
    before = stream.objects[:-1]
    is_chat = stream.dialect == "chat"
    told = of_chat(accumulate(before)) if is_chat else of_events(before)
    model = stage.fresh("plain" if is_chat else "messages")
    reply = await send(stage, caller, stream, model)
    check_head(reply)
    body = drop_comments(reply.body)
    if caller == "chat":
        *said, error = map(json.loads, chat.split_events(body))
        assert accumulate(said).text == told.text
    else:
        *said, error = read_events(body)
        assert of_events(said).text == told.text
    assert error["error"]["message"] == stream.error
    row = await stage.settled(reply)
    assert (row.state, row.outcome) == ("posted", "upstream_error")
    reported = told.used.completion if told.used else 0
    assert row.output == max(estimate(told.text), reported)


async def test_upstream_is_always_asked_for_usage(stage: Stage) -> None:
    await send(stage, "chat", get_stream("openai-text"))
    assert stage.alpha.last.json["stream_options"]["include_usage"] is True
    await send(stage, "chat", get_stream("mistral-text"), stage.fresh("no-usage"))
    assert "stream_options" not in stage.alpha.last.json
