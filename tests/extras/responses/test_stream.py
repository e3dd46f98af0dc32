"""Responses streams between equal dialects: model replaced, sealed content tagged, metered, ended."""

from __future__ import annotations

import json
import random
import re
from functools import partial
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import BadRequest, GatewayError, UpstreamError, UpstreamUnavailable
from gateway.base.money import Tokens
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.dialects.wire.records import Event
from gateway.dialects.wire.sse import render_event
from gateway.dialects.wire.stream import MAX_TRANSLATED_EVENT_BYTES
from gateway.extras.responses.stream import ResponsesReader, ResponsesStream
from tests import streams
from tests.dialects.chat.kit import MODEL, play, play_parsed, play_sliced, random_slices
from tests.extras.responses.kit import (
    TAG,
    USAGE,
    call,
    delta,
    frame,
    make_context,
    make_response,
    message,
    number,
    read_events,
)
from tests.streams import Stream
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

EXPECTED = make_context().expected


def event(body: Any, name: str = "") -> Event:
    return Event(name, dumps_lenient(body), (), canonical=False)


def test_a_tier_that_was_told_before_is_kept() -> None:
    """The terminal event may leave it out, or say null; it changes the bill."""
    reader = ResponsesReader()
    begun = make_response(service_tier="priority")
    reader.read(event({"type": "response.created", "response": begun}))
    ended = make_response(usage=USAGE, service_tier=None)
    reader.read(event({"type": "response.completed", "response": ended}))
    assert reader.read_report(EXPECTED).terms.service_tier == "priority"


@each_row(
    ("code", "kind", "passed"),
    [
        ("server_error", UpstreamError, "upstream_error"),
        ("server_is_overloaded", UpstreamUnavailable, "upstream_unavailable"),
        ("insufficient_quota", UpstreamUnavailable, "upstream_unavailable"),
        ("context_length_exceeded", BadRequest, "context_length_exceeded"),
    ],
)
@each_row("end", ["failed", "cancelled"])
def test_a_failed_response_has_a_usage_and_raises(
    code: str, kind: type, passed: str, end: str
) -> None:
    """Only codes that find fault with the request are passed on, and nothing about our account."""
    reader = ResponsesReader()
    error = {"code": code, "message": "It failed."}
    response = make_response(status=end, usage=USAGE, error=error)
    with pytest.raises(GatewayError) as caught:
        reader.read(event({"type": f"response.{end}", "response": response}))
    assert (type(caught.value), caught.value.code) == (kind, passed)
    assert ("It failed." in caught.value.message) == (code != "insufficient_quota")
    assert reader.read_report(EXPECTED).tokens == Tokens(9, output=3)
    assert not reader.ended


def test_events_get_their_type_and_say_nothing_if_empty() -> None:
    reader = ResponsesReader()
    assert reader.read(event({"delta": "x"}, "response.output_text.delta")) == [
        {"delta": "x", "type": "response.output_text.delta"}
    ]
    for data in (None, b" ", b"[DONE]"):
        assert reader.read(Event("", data, (), canonical=True)) == []
    with pytest.raises(UpstreamError):
        reader.read(Event("", b"no JSON", (), canonical=True))
    assert not reader.is_end(b"event: response.completed\n")


def test_searches_are_counted_once_and_even_if_only_the_last_event_has_them() -> None:
    search = {"type": "web_search_call", "action": {"type": "search"}}
    reader = ResponsesReader()
    reader.read(event({"type": "response.output_item.done", "item": search}))
    assert reader.read_report(EXPECTED).tool_calls == {"web_search": 1}
    response = make_response(search, search)
    reader.read(event({"type": "response.completed", "response": response}))
    assert reader.read_report(EXPECTED).tool_calls == {"web_search": 2}


def test_the_end_of_an_oversized_event_may_have_the_usage() -> None:
    reader = ResponsesReader()
    reader.read_end(b"", None)
    assert (reader.begun, reader.finished) == (True, False)
    reader.read_end(b"", USAGE)
    assert reader.finished
    assert reader.read_report(EXPECTED).tokens == Tokens(9, output=3)


CREATED = {"type": "response.created", "response": make_response(status="in_progress")}
COMPLETED = {"type": "response.completed", "response": make_response(usage=USAGE)}


def open_stream() -> ResponsesStream:
    return ResponsesStream(make_context())


send: Final = partial(play_sliced, open_stream)


def ours(body: bytes) -> bytes:
    """The parts of a conforming stream that must change, changed by other means."""
    body = re.sub(rb'"model":"[^"]*"', b'"model":"%b"' % MODEL.encode(), body)
    return body.replace(b'"encrypted_content":"', b'"encrypted_content":"' + TAG.encode())


@streams.each(*streams.RESPONSES)
def test_a_stream_passes_but_for_the_model_and_what_is_sealed(stream: Stream) -> None:
    played = send(stream.body)
    assert (played.complete, played.failure, played.estimated) == (True, None, False)
    assert played.tokens == (stream.tokens or played.tokens)
    assert played.delivered
    if stream.repaired == (0, 0):
        assert played.out == ours(stream.body)
    else:
        events = [json.loads(one.partition(b"data: ")[2]) for one in played.out.split(b"\n\n")[:-1]]
        expected = number(*(json.loads(ours(one)) for one in stream.payloads))
        items = [one["item"] for one in expected if one["type"] == "response.output_item.done"]
        expected[-1]["response"]["output"] = items
        assert events == expected


def test_what_passes_at_once_passes_as_it_does_one_by_one() -> None:
    words = ["Hi", ' "ünï"\n', "\ud83d", "\ude00", "", "word"] * 50
    told = [
        CREATED,
        *(delta(one, obfuscation="x" * (at % 7)) for at, one in enumerate(words)),
        COMPLETED,
    ]
    body = frame(*told)
    played = send(body)
    assert played.out == ours(body)
    stream = open_stream()
    stream.feed(frame(*told[:-1]))
    assert (
        stream.measure().tokens.output
        == (sum(len(one.encode("utf-8", "surrogatepass")) for one in words) + 3) // 4
    )


@fuzz(100)
@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=3)), max_size=9), st.randoms())
def test_any_words_pass_at_any_cut(words: list[tuple[str, str]], dice: random.Random) -> None:
    told = [CREATED, *(delta(text, obfuscation=noise) for text, noise in words), COMPLETED]
    body = frame(*told)
    expected = play_parsed(open_stream(), body)
    assert play(open_stream(), [body]) == expected
    if len(body) > 200:
        assert play(open_stream(), random_slices(body, dice)) == expected


def test_the_position_is_behind_what_was_sent() -> None:
    """A failure continues the stream: same response, next number, whatever passed by a template."""
    assert open_stream().position is None
    stream = open_stream()
    told = number(CREATED, *[delta("x")] * 9, COMPLETED)
    for at, one in enumerate(told[:-1]):
        stream.feed(render_event(one))
        position = stream.position
        assert position is not None
        assert (position["sequence_number"], position["response"]["id"]) == (at + 1, "resp_1")
        assert position["response"]["model"] == MODEL
    stream.feed(render_event(told[-1]))
    assert stream.complete
    assert (stream.position or {})["sequence_number"] == len(told) - 1
    bare = open_stream()
    bare.feed(render_event(CREATED))
    assert (bare.position or {})["sequence_number"] == 1, "a provider may number nothing"
    many = open_stream()
    many.feed(b"".join(map(render_event, told[:-1])))
    assert (many.position or {})["sequence_number"] == len(told) - 1


def test_keep_alives_pass_and_begin_nothing() -> None:
    stream = open_stream()
    event = render_event({"type": "keepalive", "sequence_number": 0})
    assert stream.feed(b": wait\n\n" + event) == b": wait\n\n" + event
    assert not stream.begun


@each_row(
    ("item", "delivered"), [(call(), True), (message(""), False), ({"type": "reasoning"}, False)]
)
def test_an_item_may_be_something_by_itself(item: dict[str, object], delivered: bool) -> None:
    stream = open_stream()
    stream.feed(frame(CREATED, {"type": "response.output_item.added", "item": item}))
    assert stream.delivered is delivered


def test_items_count_where_there_were_no_deltas() -> None:
    stream = open_stream()
    done = {"type": "response.output_item.done", "item": message("12345678")}
    stream.feed(frame(CREATED, done))
    assert stream.measure().tokens.output == 2
    stream.feed(frame(delta("1234"), done))
    assert stream.measure().tokens.output == 4
    stream = open_stream()
    stream.feed(frame(CREATED, delta("12345678"), {**done, "item": message("")}))
    assert stream.measure().tokens.output == 2  # of an item that is not done


def test_an_end_without_items_gets_those_that_are_done() -> None:
    """In their order and sealed; more than an event can hold are left out, all together."""
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gA"}
    done = [(1, message("Hi")), (0, sealed)]
    kind = "response.output_item.done"
    told = [{"type": kind, "output_index": index, "item": item} for index, item in done]
    output = read_events(send(frame(CREATED, *told, COMPLETED)).out)[-1]["response"]["output"]
    assert output == [{**sealed, "encrypted_content": f"{TAG}gA"}, message("Hi")]
    full = {**COMPLETED, "response": make_response(message("Ho"), usage=USAGE)}
    output = read_events(send(frame(CREATED, *told, full)).out)[-1]["response"]["output"]
    assert output == [message("Ho")]
    longest = message("x" * (MAX_TRANSLATED_EVENT_BYTES // 2))
    told += [{"type": kind, "output_index": index, "item": longest} for index in (2, 3)]
    played = play(open_stream(), [frame(CREATED, *told, COMPLETED)])
    assert read_events(played.out)[-1]["response"]["output"] == []


TOKENS = {"input_tokens": 9, "output_tokens": 3}


@each_row("usage", [
    USAGE, TOKENS, {**USAGE, "input_tokens_details": {}, "output_tokens_details": None}, {**USAGE, "total_tokens": None},
])  # fmt: skip
def test_a_usage_has_the_counts_that_codex_requires(usage: dict[str, Any]) -> None:
    """Without one of them it drops the turn that it has received, and sends it again."""
    last = {**COMPLETED, "response": make_response(message("Hi"), usage=usage)}
    assert read_events(send(frame(CREATED, last)).out)[-1]["response"]["usage"] == USAGE


def test_events_with_other_fields_or_names_are_written_anew() -> None:
    event = b"id: 7\nevent: other\ndata: " + json.dumps(number(CREATED)[0]).encode() + b"\n\n"
    assert read_events(open_stream().feed(event))[0]["response"]["model"] == MODEL


def test_an_oversized_last_event_ends_the_stream_all_the_same() -> None:
    long = "x" * MAX_TRANSLATED_EVENT_BYTES
    body = frame(CREATED, {**COMPLETED, "response": make_response(message(long), usage=USAGE)})
    played = play(open_stream(), [body[:100], body[100:]])
    assert (played.complete, played.tokens) == (True, Tokens(9, output=3))
    assert played.out.endswith(body[-100:])
