"""The streams of `tests/streams` over sockets, in many slicings, to callers of both dialects."""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import pytest

from tests import streams
from tests.streams import Stream, drop_comments, get_stream
from tests.support import chat, messages
from tests.support.chat import Used, estimate, say
from tests.support.client import Reply
from tests.support.messages import ask, read_events
from tests.support.replies import sliced_reply
from tests.support.rows import each_row
from tests.support.said import Said, accumulate
from tests.support.stage import Stage
from tests.support.told import of_chat, of_events
from tests.support.upstream import Script

MODELS = {"chat": "streams/0", "messages": "message-streams/0"}
"""Models by the provider's dialect. Complete streams never fail here, so one serves all."""
BYTEWISE_BYTES = 10_000
"""Longer streams go in pieces of up to 97 bytes, as one packet per byte takes too long."""
RANDOM_SLICINGS = 40
"""Slicings of each stream; more than a thousand in all."""
PASSING = [one for one in streams.MESSAGES if not one.name.startswith("imitation")]
IMITATIONS = [one for one in streams.MESSAGES if one not in PASSING]

each_slicing = each_row("slicing", ["by event", "random"])


@pytest.fixture
def dice() -> random.Random:
    seed = random.randrange(2**32)
    print("seed:", seed)
    return random.Random(seed)


def slice_up(stream: Stream, slicing: str, dice: random.Random) -> Script:
    body = stream.body
    match slicing:
        case "whole":
            sizes = [len(body)]
        case "by event":
            sizes = [len(block) for block in stream.blocks]
        case "by byte" if len(body) <= BYTEWISE_BYTES:
            sizes = [1] * len(body)
        case "by byte":
            sizes = [dice.randint(1, 97) for _ in range(len(body))]
        case _:
            sizes = [dice.choice((1, 2, 3, 7, 50, 200, 1500)) for _ in range(len(body))]
    return sliced_reply(body, sizes)


async def send(
    stage: Stage, caller: str, stream: Stream, script: Script, model: str = "", **extra: Any
) -> Reply:
    """Ask as a caller of that dialect; the provider replies with the stream."""
    stage.alpha.play(script)
    model = model or MODELS[stream.dialect]
    if caller == "chat":
        return await stage.chat(say(model, stream=True, **extra))
    return await stage.message(ask(model, stream=True))


def check_head(reply: Reply) -> None:
    assert (reply.status, reply.complete) == (200, True)
    assert reply.headers["content-type"].startswith("text/event-stream")


def used(said: Said) -> Used:
    assert said.usage is not None
    prompt, completion, _ = said.usage
    return Used(prompt, completion, said.cached_tokens, said.written_tokens)


@streams.each(*streams.CHAT)
@each_slicing
@each_row("asked", [False, True])
async def test_chat_stream_says_the_same_and_keeps_the_rules(
    stage: Stage, dice: random.Random, stream: Stream, slicing: str, *, asked: bool
) -> None:
    expected = accumulate(stream.objects)
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
    script = slice_up(stream, slicing, dice)
    reply = await send(stage, "chat", stream, script, **options)
    check_head(reply)
    said = chat.read_stream(reply.body, MODELS["chat"], usage_asked=asked)
    assert said.choices == expected.choices
    assert said.usage in ([expected.usage] if asked else [expected.usage, None])
    assert await stage.charge_nano(reply) == used(expected).cost_nano
    row = await stage.settled(reply)
    assert (row.state, row.outcome, row.estimated) == ("posted", "complete", False)
    assert row.input + row.cached_input + row.cache_write == used(expected).prompt
    assert row.output == used(expected).completion


@streams.each(*streams.CHAT)
@each_row("slicing", ["whole", "by byte"])
async def test_chat_stream_says_the_same_to_a_messages_caller(
    stage: Stage, dice: random.Random, stream: Stream, slicing: str
) -> None:
    expected = of_chat(accumulate(stream.objects))
    reply = await send(stage, "messages", stream, slice_up(stream, slicing, dice))
    check_head(reply)
    told = of_events(messages.read_stream(drop_comments(reply.body), MODELS["chat"]))
    assert told == expected
    assert expected.used is not None
    assert await stage.charge_nano(reply) == expected.used.cost_nano


@streams.each(*streams.MESSAGES)
@each_slicing
async def test_messages_stream_says_the_same_to_a_chat_caller(
    stage: Stage, dice: random.Random, stream: Stream, slicing: str
) -> None:
    expected = of_events(stream.objects)
    options = {"include_usage": True}
    script = slice_up(stream, slicing, dice)
    reply = await send(stage, "chat", stream, script, stream_options=options)
    said = chat.read_stream(reply.body, MODELS["messages"], usage_asked=True)
    assert of_chat(said) == expected
    assert expected.used is not None
    assert await stage.charge_nano(reply) == expected.used.cost_nano


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
@each_slicing
async def test_messages_stream_passes_byte_for_byte_but_for_the_model(
    stage: Stage, dice: random.Random, stream: Stream, slicing: str
) -> None:
    reply = await send(stage, "messages", stream, slice_up(stream, slicing, dice))
    check_head(reply)
    assert reply.body == rename(stream)
    told = of_events(read_events(reply.body))
    row = await stage.settled(reply)
    assert (row.state, row.outcome, row.estimated) == ("posted", "complete", False)
    assert told.used is not None
    assert await stage.charge_nano(reply) == told.used.cost_nano


@pytest.mark.slow
@streams.each(*PASSING)
async def test_random_slicings_all_give_the_same_bytes(
    stage: Stage, dice: random.Random, stream: Stream
) -> None:
    expected = hashlib.sha256(rename(stream)).digest()
    for _ in range(RANDOM_SLICINGS):
        reply = await send(stage, "messages", stream, slice_up(stream, "random", dice))
        assert hashlib.sha256(reply.body).digest() == expected


@streams.each(*IMITATIONS)
@each_slicing
async def test_imitated_messages_stream_becomes_one_that_sdks_can_read(
    stage: Stage, dice: random.Random, stream: Stream, slicing: str
) -> None:
    reply = await send(stage, "messages", stream, slice_up(stream, slicing, dice))
    check_head(reply)
    events = read_events(reply.body)
    assert of_events(events) == of_events(stream.objects)
    assert events[0]["message"]["model"] == MODELS["messages"]
    assert events[-1] == messages.STOP


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
    script = sliced_reply(stream.body, map(len, stream.blocks))
    reply = await send(stage, caller, stream, script, model)
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


async def test_upstream_is_always_asked_for_usage(stage: Stage, dice: random.Random) -> None:
    stream = get_stream("openai-text")
    await send(stage, "chat", stream, slice_up(stream, "whole", dice))
    assert stage.alpha.last.json["stream_options"]["include_usage"] is True
    stream, model = get_stream("mistral-text"), stage.fresh("no-usage")
    await send(stage, "chat", stream, slice_up(stream, "whole", dice), model)
    assert "stream_options" not in stage.alpha.last.json


async def test_conforming_chat_stream_passes_byte_for_byte_but_for_the_model(
    stage: Stage, dice: random.Random
) -> None:
    """OpenAI's own stream needs no repair: only the model's name and the usage chunk are edited."""
    stream, options = get_stream("openai-text"), {"include_usage": True}
    script = slice_up(stream, "random", dice)
    reply = await send(stage, "chat", stream, script, stream_options=options)
    theirs = stream.objects[0]["model"].encode()
    assert reply.body == stream.body.replace(
        b'"model":"%s"' % theirs, b'"model":"%s"' % MODELS["chat"].encode()
    )
