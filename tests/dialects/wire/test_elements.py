"""Elements are counted without parsing, in steps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

import pytest

from gateway.dialects.exchanges import CALLERS, EXCHANGES
from gateway.dialects.records import Json, Target
from gateway.dialects.wire import jsonbytes
from gateway.dialects.wire.jsonbytes import (
    MAX_ELEMENTS,
    bound_elements,
    count_elements,
    count_marks,
    has_more_elements,
    limit_elements,
    maybe_loads,
    refuse_elements,
    spend_elements,
)
from gateway.errors import BadRequest, UndeliverableReply
from tests.dialects.chat.kit import make_context
from tests.support.rows import each_row


def test_marks_are_commas_and_opening_brackets() -> None:
    assert count_marks(b'{"a":[1,2,{}]} ,') == 6


@pytest.mark.parametrize("most", [0, 1, 2, 7])
@pytest.mark.parametrize("text", ["\\" * 9, '"' * 9, '\\"', 'a\\" , [', "\\"])
def test_a_string_ends_where_it_ends_whatever_its_escapes(
    text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps in which a long string is read may end within an escape."""
    data = json.dumps([text, text]).encode()  # two strings, a bracket and a comma
    for step in (2, 3, 4, 1 << 18):
        monkeypatch.setattr(jsonbytes, "STEP_BYTES", step)
        for piece in (*range(1, len(data)), 1 << 14):
            monkeypatch.setattr(jsonbytes, "PIECE_BYTES", piece)
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


DENSE: Final = "[" + "{}," * MAX_ELEMENTS


def make_call(arguments: str) -> Json:
    return {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}


@each_row("caller", ["chat", "responses"])
@each_row("is_whole", [False, True])
def test_the_arguments_of_a_callers_calls_are_counted(caller: str, *, is_whole: bool) -> None:
    """28 MiB of them took a gigabyte, and were free of charge where they were no JSON."""
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
    exchange = replace(EXCHANGES["messages"]["chat"], max_elements=MAX_ELEMENTS)
    pipeline = exchange.open_reply(make_context())
    pipeline.feed(reply)
    pipeline.end()
    assert type(pipeline.failure) is UndeliverableReply
    assert pipeline.measure().tokens.output > 0, "it was made, and is charged"
