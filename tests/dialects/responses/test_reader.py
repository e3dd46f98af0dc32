"""Responses and their events as they are read, errors among them."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.dialects.records import Event
from gateway.dialects.responses.stream import ResponsesReader, read_response
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.errors import UpstreamError, UpstreamUnavailable
from gateway.money import Tokens
from tests.dialects.responses.kit import Json, make_context, make_response, message
from tests.support.rows import each_row

USAGE = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}
EXPECTED = make_context().expected


def event(body: Any, name: str = "") -> Event:
    return Event(name, dumps_lenient(body), (), canonical=False)


def test_a_response_is_read() -> None:
    reply = make_response(message("Hi"), error=None)
    assert read_response(dumps_lenient(reply)) == reply


@each_row(
    ("body", "said"),
    [
        (b"<html>", "not JSON"),
        (b"[]", "not a response"),
        (b'{"object":"response"}', "not a response"),
        (b'{"error":{"message":"no"}}', "no"),
        (dumps_lenient(make_response(status="failed", error={"code": "x", "message": "oh"})), "oh"),
        (dumps_lenient(make_response(status="cancelled")), "answered with an error"),
    ],
)
def test_what_is_no_response_is_the_providers_fault(body: bytes, said: str) -> None:
    with pytest.raises(UpstreamError, match=said):
        read_response(body)


@each_row("kind", ["completed", "incomplete"])
def test_the_terminal_event_is_read_and_has_the_usage(kind: str) -> None:
    reader = ResponsesReader()
    [created] = reader.read(event({"type": "response.created", "response": make_response()}))
    assert (reader.begun, reader.ended, created["type"]) == (True, False, "response.created")
    response = make_response(status=kind, usage=USAGE, service_tier="priority")
    body = {"type": f"response.{kind}", "response": response}
    assert reader.read(event(body)) == [body]
    assert (reader.ended, reader.finished, reader.close()) == (True, True, ())
    report = reader.read_report(EXPECTED)
    assert (report.tokens, report.terms.service_tier) == (Tokens(9, output=3), "priority")


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
        ("context_length_exceeded", UpstreamError, "context_length_exceeded"),
    ],
)
@each_row("end", ["failed", "cancelled"])
def test_a_failed_response_has_a_usage_and_raises(
    code: str, kind: type, passed: str, end: str
) -> None:
    """Only codes that find fault with the request are passed on."""
    reader = ResponsesReader()
    error = {"code": code, "message": "It failed."}
    response = make_response(status=end, usage=USAGE, error=error)
    with pytest.raises(UpstreamError, match=r"It failed\.") as caught:
        reader.read(event({"type": f"response.{end}", "response": response}))
    assert (type(caught.value), caught.value.code) == (kind, passed)
    assert reader.read_report(EXPECTED).tokens == Tokens(9, output=3)
    assert not reader.ended


@each_row(
    ("body", "name"),
    [
        ({"type": "error", "code": "x", "message": "Oh no"}, ""),
        ({"code": "x", "message": "Oh no"}, "error"),
        ({"error": {"message": "Oh no"}}, ""),
        ({"type": "error", "error": {"message": "Oh no"}}, "error"),
    ],
)
def test_errors_in_any_envelope(body: Json, name: str) -> None:
    with pytest.raises(UpstreamError, match="Oh no"):
        ResponsesReader().read(event(body, name))


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


def test_searches_are_those_of_the_items_where_the_end_has_none() -> None:
    reader = ResponsesReader()
    item = {"type": "web_search_call", "action": {"type": "search"}}
    reader.read(event({"type": "response.output_item.done", "item": item}))
    reader.read(event({"type": "response.completed", "response": make_response()}))
    assert reader.read_report(make_context().expected).tool_calls == {"web_search": 1}
