"""Every stream of `tests/streams` to callers of every dialect: nothing is lost, in any slicing or cut.

Between equal dialects each event that breaks no rule passes byte for byte.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, Final

import pytest

from gateway.base.money import Tokens
from gateway.base.usage import Metered
from gateway.dialects.chat.stream import ChatStream
from gateway.dialects.messages.stream import STOP
from gateway.dialects.wire.pipelines import Pipeline
from tests import streams
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    MODEL,
    Played,
    check_stream,
    copy_pipeline,
    dump,
    each_byte,
    make_context,
    make_dice,
    play,
    random_slices,
    read_chunks,
)
from tests.dialects.rules import check_message_events, check_response_events
from tests.streams import Stream, drop_comments
from tests.support.accumulated import accumulate
from tests.support.chat import Used
from tests.support.content import Content, of_chat, of_events, of_response
from tests.support.formats import EXCHANGES
from tests.support.messages import read_events
from tests.support.rows import each_row

PLAYS: Final = [
    (caller, stream)
    for stream in (*streams.CHAT, *streams.MESSAGES, *streams.RESPONSES)
    for caller in EXCHANGES
    if stream.dialect in EXCHANGES[caller]
]
SAYING: Final = [
    (caller, stream)
    for caller, stream in PLAYS
    if caller == "responses" or stream.name != "responses-custom-tool"
]
"""Others know no custom tools, or read their input in another way."""
FEW: Final = 2
"""Random slicings of a stream in a plain run."""
SHORT_BYTES: Final = 2000
"""Up to this length a stream goes byte by byte in a plain run too."""


def open_stream(caller: str, stream: Stream) -> Pipeline:
    choices = len(accumulate(stream.objects).choices) if stream.dialect == caller == "chat" else 1
    return EXCHANGES[caller][stream.dialect].open_stream(make_context(usage=True, n=choices))


def play_in(caller: str, stream: Stream, *pieces: bytes) -> Played:
    return play(open_stream(caller, stream), pieces or [stream.body])


def read_sent(stream: Stream) -> Content:
    match stream.dialect:
        case "chat":
            return of_chat(accumulate(stream.objects))
        case "messages":
            return of_events(stream.objects)
        case _:
            items = [one["item"] for one in stream.objects if one["type"].endswith("item.done")]
            return of_response(stream.objects[-1]["response"] | {"output": items})


def read_heard(caller: str, stream: Stream, out: bytes) -> Content:
    """Read what a caller heard, and check its dialect's rules where the gateway wrote the events."""
    out = drop_comments(out)
    if caller == "chat":
        assert out.endswith(DONE)
        chunks = read_chunks(out.removesuffix(DONE))
        check_stream(chunks, usage=True)
        assert chunks[-1]["choices"] == []  # each reports its usage somewhere
        return of_chat(accumulate(chunks))
    events: list[Any] = read_events(out)
    if caller == "messages":
        if stream.dialect != caller:
            check_message_events(events)
        return of_events(events)
    if stream.dialect != caller:
        check_response_events(events)
    return of_response(events[-1]["response"])


def count(used: Used | None) -> Tokens:
    assert used is not None
    fresh = used.prompt - used.cached - used.written
    return Tokens(fresh, used.cached, used.written, used.completion)


@each_row(("caller", "stream"), SAYING)
def test_it_says_the_same_and_is_charged_as_reported(caller: str, stream: Stream) -> None:
    played = play_in(caller, stream)
    assert (played.complete, played.failure, played.estimated) == (True, None, False)
    sent, heard = read_sent(stream), read_heard(caller, stream, played.out)
    if "responses" in {caller, stream.dialect}:  # a response only says that it was cut short
        sent, heard = (replace(one, finish=str(one.finish == "length")) for one in (sent, heard))
    assert heard == sent
    assert played.tokens == (stream.tokens or played.tokens)
    if stream.tokens is None or not (stream.tokens.cache_write_1h or stream.tokens.media):
        assert played.tokens == count(sent.used)


@each_row(("caller", "stream"), PLAYS)
def test_some_slicings_give_the_same(caller: str, stream: Stream) -> None:
    check_slicings(caller, stream, make_dice(), FEW)


@pytest.mark.daily
@pytest.mark.no_cover
@pytest.mark.parametrize(("caller", "stream"), PLAYS)
def test_many_slicings_give_the_same(caller: str, stream: Stream) -> None:
    """Cut in two at every sixth place but those whose bytes on both sides are those of another cut.

    The first is drawn, so that a few runs have cut at all places.
    """
    body, dice = stream.body, make_dice()
    whole = play_in(caller, stream)
    around = {body[max(0, cut - 6) : cut + 3]: cut for cut in range(1, len(body))}
    for cut in [*around.values()][dice.randrange(6) :: 6]:
        assert play_in(caller, stream, body[:cut], body[cut:]) == whole, cut
    check_slicings(caller, stream, dice, 10)


def check_slicings(caller: str, stream: Stream, dice: random.Random, number: int) -> None:
    body = stream.body
    whole = play_in(caller, stream)
    if number > FEW or len(body) <= SHORT_BYTES:
        assert play_in(caller, stream, *each_byte(body)) == whole
    for _ in range(number):
        pieces = list(random_slices(body, dice))
        assert play_in(caller, stream, *pieces) == whole, pieces[:3]


@each_row(("caller", "stream"), PLAYS)
def test_cut_before_its_finish_it_is_not_complete(caller: str, stream: Stream) -> None:
    """Before the finish a clean end is a cut; a broken connection always is."""
    pipeline = open_stream(caller, stream)
    for block in stream.blocks:
        if not pipeline.finished:
            assert not pipeline.complete
            ended = copy_pipeline(pipeline)
            ended.end()
            assert not ended.complete
        if not pipeline.complete:
            pipeline.feed(block)


def end_copy(pipeline: Pipeline) -> tuple[bytes, bool, Metered]:
    ended = copy_pipeline(pipeline)
    return ended.end(), ended.complete, ended.measure()


@each_row("stream", [streams.get_stream("mistral-text"), streams.get_stream("anthropic-text")])
@pytest.mark.parametrize("caller", ["chat", "messages"])
def test_cut_within_an_event_it_ends_as_before_the_event(caller: str, stream: Stream) -> None:
    """At a clean end, an event counts that lacks only its blank line."""
    pipeline = open_stream(caller, stream)
    for block in stream.blocks:
        broken, ended = pipeline.measure(), end_copy(pipeline)
        for size in range(1, len(block) - 2):
            assert pipeline.feed(block[size - 1 : size]) == b""
            assert (pipeline.complete, pipeline.measure()) == (False, broken)
            assert end_copy(pipeline) == ended
        pipeline.feed(block[len(block) - 3 : -2])
        lacking, out = end_copy(pipeline), pipeline.feed(block[-2:])
        rest, *counted = end_copy(pipeline)
        assert lacking == (out + rest, *counted)
    assert pipeline.complete


@each_row("stream", [*streams.CHAT, *streams.MESSAGES])
def test_what_went_out_needs_no_repair(stream: Stream) -> None:
    """Fed in again under the same name, every byte passes."""
    out = play_in(stream.dialect, stream).out
    assert play(open_stream(stream.dialect, stream), [out]).out == out


def open_unasked(stream: Stream) -> ChatStream:
    """Open a stream for a chat caller that asked for no usage, and for as many choices as there are."""
    return ChatStream(make_context(n=len(accumulate(stream.objects).choices)))


def has_usage_behind_the_finish(stream: Stream) -> bool:
    """Return whether the usage has a chunk of its own, which only callers that asked for it get."""
    last = max(
        number
        for number, one in enumerate(stream.objects)
        if any(choice.get("finish_reason") for choice in one["choices"])
    )
    return any(one.get("usage") for one in stream.objects[last + 1 :])


@streams.each(*streams.CHAT)
def test_a_chat_caller_gets_a_usage_unasked_only_where_no_chunk_is_its_own(stream: Stream) -> None:
    expected = accumulate(stream.objects)
    played = play(open_unasked(stream), [stream.body])
    assert played.complete
    assert played.out.endswith(DONE)
    chunks = read_chunks(drop_comments(played.out.removesuffix(DONE)))
    check_stream(chunks, usage=False)
    said = accumulate(chunks)
    assert said.choices == expected.choices
    assert said.usage == (None if has_usage_behind_the_finish(stream) else expected.usage)
    assert (played.tokens, played.estimated) == (count(of_chat(expected).used), False)


def without_usage(stream: Stream) -> Iterator[bytes]:
    """Remove the usage wherever it stands, byte for byte."""
    chunks = [{**one, "usage": None, "x_groq": None} for one in stream.objects]
    for one in chunks:
        one["choices"] = [{**choice, "usage": None} for choice in one["choices"]]
    body = b"".join(b"data: %b\n\n" % dump(one) for one in chunks) + DONE
    return (body[at : at + 13] for at in range(0, len(body), 13))


@streams.each(*streams.CHAT)
def test_the_delivered_estimate_is_exact_at_every_cut(stream: Stream) -> None:
    """Without a usage it is a quarter of the UTF-8 bytes of the sent events, rounded up."""
    pipeline = open_unasked(stream)
    heard = 0
    for piece in without_usage(stream):
        for one in read_chunks(pipeline.feed(piece)):
            said = accumulate([one]).choices
            heard += sum(len(each.output.encode()) for each in said.values())
        expected = Tokens(INPUT_ESTIMATE, output=-(-heard // 4))
        metered = pipeline.measure()
        assert (metered.tokens, metered.estimated) == (expected, True)
        assert pipeline.delivered or heard == 0
    assert pipeline.complete


def list_events(body: bytes) -> list[bytes]:
    return re.findall(rb".+?\n\n", body, re.DOTALL)


def rename(stream: Stream) -> bytes:
    """Return the stream with our model's name, and with ids of the chat format's shape."""
    body = stream.body
    heads = [one.get("message") or one.get("response") or one for one in stream.objects]
    for model in {head["model"] for head in heads if head.get("model")}:
        body = re.sub(
            rb'("model": ?)"%b"' % re.escape(model.encode()), rb'\1"%b"' % MODEL.encode(), body
        )
    if stream.dialect == "chat":
        for identity in {head["id"] for head in heads if head.get("id")}:
            bare = identity.removeprefix("chatcmpl-").encode()
            body = re.sub(
                rb'("id": ?)"%b"' % re.escape(identity.encode()), rb'\1"chatcmpl-%b"' % bare, body
            )
    return body


def is_terminal(event: bytes) -> bool:
    return event == DONE or b'"message_stop"' in event


def count_repaired(stream: Stream) -> tuple[int, int]:
    """Pass a stream; return how many events did not pass as they are, and what took their place.

    The error that ends a failing stream, and what follows it, do not count.
    """
    given = [event for event in stream.blocks if not is_terminal(event)]
    if stream.error is not None:
        stream = replace(stream, body=b"".join(given[:-1]))
    sent = play(open_stream(stream.dialect, stream), [b"".join(given)])
    assert (sent.complete, sent.failure) == (stream.error is None, stream.error)
    events = list_events(sent.out)
    if sent.complete:
        assert events.pop() in {DONE, STOP}
    given = [event for event in list_events(rename(stream)) if not is_terminal(event)]
    blocks = SequenceMatcher(None, given, events, autojunk=False).get_matching_blocks()
    passed = sum(block.size for block in blocks)
    return len(given) - passed, len(events) - passed


@streams.each(*streams.CHAT, *streams.MESSAGES, *streams.FAILING, *streams.RESPONSES_FAILING)
def test_events_that_break_no_rule_pass_byte_for_byte_and_in_order(stream: Stream) -> None:
    assert count_repaired(stream) == (stream.repaired or count_repaired(stream))
