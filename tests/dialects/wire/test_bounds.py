"""Bounds on the size of JSON: no text is parsed that would take long, whichever way it came."""

from __future__ import annotations

import json
import time
from typing import Final

import pytest

from gateway.base.errors import BadRequest, UndeliverableReply
from gateway.dialects.wire import bounds
from gateway.dialects.wire.bounds import (
    MAX_ELEMENTS,
    MAX_ESCAPES,
    MAX_WIDE_BYTES,
    bound_elements,
    count_elements,
    has_more_elements,
    limit_elements,
    refuse_elements,
    refuse_reply,
    spend_elements,
)
from gateway.dialects.wire.jsonbytes import maybe_loads
from gateway.dialects.wire.records import Json, Target
from tests.dialects.chat.kit import make_context
from tests.support.formats import CALLERS, EXCHANGES
from tests.support.rows import each_row

PIECE_BYTES, STEP_BYTES = 1 << 14, 1 << 16


def test_marks_are_commas_and_opening_brackets() -> None:
    assert bound_elements(b'{"a":[1,2,{}]} ,') == 3 * 6 + 1


@pytest.mark.parametrize("most", [0, 1, 2, 7])
@pytest.mark.parametrize("text", ["\\" * 9, '"' * 9, '\\"', 'a\\" , [', "\\"])
def test_a_string_ends_where_it_ends_whatever_its_escapes(
    text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps in which a long string is read may end within an escape."""
    data = json.dumps([text, text]).encode()  # two strings, a bracket and a comma
    for step in (2, 3, 4, 1 << 18):
        monkeypatch.setattr(bounds, "STEP_BYTES", step)
        for piece in (*range(1, len(data)), 1 << 14):
            monkeypatch.setattr(bounds, "PIECE_BYTES", piece)
            assert has_more_elements(data, most) == (most < 4)


@each_row("value", [{"a": "b"}, ["a", "b"], [], 1, {"a": {"b": {"c": "d,e"}}}, "a"])
def test_the_bound_is_no_less_than_the_number(value: object) -> None:
    data = json.dumps(value).encode()
    assert count_elements(data, 1000) <= bound_elements(data)


def test_all_that_is_parsed_in_a_context_has_one_budget() -> None:
    """Many small texts count like a large one; what begins no object and no array costs nothing."""
    text, parsed = json.dumps([0] * 100).encode(), list[object]()

    def parse_all() -> None:
        with limit_elements(1000, refuse_elements):
            for _ in range(100):
                assert maybe_loads(b"," * 5000) is None
                parsed.append(maybe_loads(text))

    with pytest.raises(BadRequest, match="counting those in strings"):
        parse_all()
    assert len(parsed) == 10
    maybe_loads(text)


def test_what_is_no_json_counts_before_that_is_seen() -> None:
    with pytest.raises(BadRequest), limit_elements(1000, refuse_elements):
        maybe_loads(b" [" + b"{}," * 1000)


def test_without_a_budget_one_text_has_a_limit() -> None:
    """Such as an event of a stream, or the arguments that came in many."""
    spend_elements(b"[" + b"0," * (MAX_ELEMENTS - 2) + b"0]")
    with pytest.raises(UndeliverableReply):
        maybe_loads(b"[" + b"0," * MAX_ELEMENTS + b"0]")


def test_a_reply_of_escapes_is_not_parsed() -> None:
    exchange = EXCHANGES["messages"]["chat"]
    body = b'{"a":"' + rb"\n" * (MAX_ESCAPES + 1) + b'"}'
    for read in (exchange.read_reply, exchange.replay_reply):
        failure = read(body, make_context()).failure
        assert type(failure) is UndeliverableReply
        assert "too many JSON values or escapes" in failure.message
    with pytest.raises(UndeliverableReply):
        maybe_loads(b'"' + rb"\n" * (MAX_ESCAPES + 1) + b'"')
    assert maybe_loads(b'"' + rb"\n" * MAX_ESCAPES + b'"') == "\n" * MAX_ESCAPES
    with pytest.raises(UndeliverableReply):
        maybe_loads(b'"' + "\u8bed".encode() * (MAX_WIDE_BYTES // 3 + 1) + b'"')
    with pytest.raises(BadRequest), limit_elements(9, refuse_elements):
        maybe_loads(b" " * STEP_BYTES + b"[" + b"0," * 9 + b"0]")


DENSE: Final = "[" + "{}," * MAX_ELEMENTS


def make_call(arguments: str) -> Json:
    return {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}


@each_row("caller", CALLERS.keys() & {"chat", "responses"})
@each_row("is_whole", [False, True])
def test_the_arguments_of_a_callers_calls_are_counted(caller: str, *, is_whole: bool) -> None:
    """28 MiB of tool-call arguments took 1 GB to parse; invalid JSON was not counted against the budget."""
    arguments = DENSE + "{}]" if is_whole else DENSE
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    bodies: dict[str, Json] = {
        "chat": {"messages": [{"role": "assistant", "tool_calls": [make_call(arguments)]}]},
        "responses": {"input": [call]},
    }
    request = CALLERS[caller].parse_request(json.dumps({"model": "m", **bodies[caller]}).encode())
    with pytest.raises(BadRequest, match="counting those in strings"):
        EXCHANGES[caller]["messages"].write_request(request, Target("up"))


def test_the_arguments_of_a_providers_calls_are_counted() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [make_call(DENSE + "{}]")]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    reply = json.dumps({"object": "chat.completion", "model": "m", "choices": [choice]}).encode()
    exchange = EXCHANGES["messages"]["chat"]
    with limit_elements(MAX_ELEMENTS, refuse_reply):
        made = exchange.read_reply(reply, make_context())
    assert type(made.failure) is UndeliverableReply
    assert made.metered.tokens.output > 0, "it was made, and is charged"


@each_row("rest", [b'"]', b"", b"a"])
@each_row("pieces", [1, 200])
def test_escaped_quotes_take_no_more_time_than_others(rest: bytes, pieces: int) -> None:
    """At each of them a search for strings would begin anew: a second for 16 KiB."""
    long = b'\\"' * PIECE_BYTES
    data = b"[" + (b'"' + long + b'",') * (pieces - 1) + b'"' + long + rest
    began = time.thread_time()
    assert count_elements(data, len(data)) == 2 * pieces
    assert time.thread_time() - began < pieces / 10
