"""Refusals in pairs that are joined through chat: they name the caller's field, not chat's.

The upstream here takes anything but certain words, wherever they stand.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import pytest

from gateway.dialects.composed import compose
from gateway.dialects.exchanges import CALLERS, EXCHANGES, TRANSLATIONS, UPSTREAMS, Exchange
from gateway.dialects.records import CompletionRequest, Target
from gateway.dialects.wire.fields import Field
from gateway.errors import BadRequest
from tests.support.rows import each_row

Json = dict[str, Any]

TARGET: Final = Target("theirs")
REFUSED: Final = frozenset({"bad", "high", 7})
REASON: Final = "Not here."
GOOD: Final[Json] = {"role": "user", "content": "Hi"}
BAD: Final[Json] = {"role": "user", "content": "bad"}
SYSTEM: Final[Json] = {"role": "developer", "content": "Be brief."}
REASONED: Final[Json] = {"type": "reasoning", "id": "rs_1", "summary": []}
TEXT: Final[Json] = {"type": "input_text", "text": "Look:"}
PICTURE: Final[Json] = {"type": "input_image", "image_url": "bad"}
CALL: Final[Json] = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT: Final[Json] = {"type": "function_call_output", "call_id": "c1", "output": "42"}


def refuse_words(field: Field) -> None:
    if isinstance(field.value, dict):
        for name in field.value:
            refuse_words(field[name])
    elif isinstance(field.value, list):
        for item in field.read_items():
            refuse_words(item)
    elif field.value in REFUSED:
        raise field.refuse(REASON)


def translate(request: CompletionRequest, _target: Target) -> Json:
    refuse_words(Field(request.body))
    return request.body


FUSSY: Final = replace(TRANSLATIONS["chat", "messages"], translate_request=translate)
PIVOT: Final = (CALLERS["chat"], UPSTREAMS["chat"])


def refuse(caller: str, **fields: Any) -> str:
    """Return the caller's field that a refusal names, which its message quotes."""
    composed = compose(TRANSLATIONS[caller, "chat"], FUSSY, PIVOT)
    exchange = Exchange(CALLERS[caller], UPSTREAMS["chat"], composed)
    request = exchange.caller.parse_request(json.dumps({"model": "ours", **fields}).encode())
    with pytest.raises(BadRequest) as caught:
        exchange.write_request(request, TARGET)
    error = caught.value
    assert error.message == f"Unsupported value: '{error.param}'. {REASON}"
    assert error.code == "unsupported_value"
    assert error.param is not None
    return error.param


def refuse_items(*items: Json) -> str:
    return refuse("responses", input=list(items))


def refuse_turns(*turns: Json) -> str:
    return refuse("messages", max_tokens=9, messages=list(turns))


@each_row("before", range(5))
@each_row("behind", range(3))
def test_an_item_is_found_wherever_it_is(before: int, behind: int) -> None:
    around = ([SYSTEM, *[GOOD] * before], [GOOD] * behind)
    assert refuse_items(*around[0], BAD, *around[1]) == f"input[{before + 1}]"
    parts = {**GOOD, "content": [TEXT, PICTURE, TEXT]}
    assert refuse_items(*around[0], parts, *around[1]) == f"input[{before + 1}].content[1]"


def test_items_that_are_merged_or_moved_are_told_apart() -> None:
    call = {**CALL, "arguments": "bad"}
    assert refuse_items(GOOD, REASONED, CALL, call, RESULT) == "input[3]"
    result = {**RESULT, "output": [TEXT, TEXT, PICTURE]}
    assert refuse_items(SYSTEM, CALL, GOOD, result, GOOD) == "input[3].output[2]"


def test_parts_that_nobody_reads_are_not_named() -> None:
    assert refuse_items(GOOD, {**CALL, "arguments": "bad", "content": [TEXT]}) == "input[1]"


def test_the_first_of_several_is_named() -> None:
    parts = {**GOOD, "content": [PICTURE, PICTURE]}
    assert refuse_items(GOOD, parts, GOOD, parts) == "input[1].content[0]"


def test_a_block_is_named_as_anthropic_names_it() -> None:
    text = {"type": "text", "text": "two"}
    picture = {"type": "image", "source": {"type": "url", "url": "bad"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [text, picture]}
    turn = {"role": "user", "content": [text, result]}
    assert refuse_turns(GOOD, BAD) == "messages.1"
    assert refuse_turns(GOOD, turn) == "messages.1.content.1.content.1"


def test_what_is_hidden_deeper_is_named_by_what_holds_it() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "bad"}}
    document = {"type": "document", "source": {"type": "content", "content": [picture]}}
    assert refuse_turns(GOOD, {"role": "user", "content": [document]}) == "messages.1.content.0"


def test_a_fault_of_no_item_names_the_conversation() -> None:
    """An item alone is well here; instructions are no item."""
    assert refuse("responses", instructions="bad", input=[GOOD, GOOD]) == "input"
    exchange = EXCHANGES["responses"]["messages"]
    data = json.dumps({"model": "ours", "input": [{**GOOD, "content": " "}] * 2}).encode()
    with pytest.raises(BadRequest) as caught:
        exchange.write_request(exchange.caller.parse_request(data), TARGET)
    assert caught.value.param == "input"


TOOL: Final[Json] = {"name": "bad"}
SCHEMA: Final[Json] = {"type": "json_schema", "schema": {"title": "bad"}}


@each_row(
    ("fields", "param"),
    [
        ({"max_output_tokens": 7}, "max_output_tokens"),
        ({"reasoning": {"effort": "high"}}, "reasoning.effort"),
        ({"text": {"format": {**SCHEMA, "name": "n"}}}, "text.format"),
        ({"tools": [{"type": "function", "parameters": {}, **TOOL}]}, "tools"),
    ],
)
def test_a_responses_callers_field(fields: Json, param: str) -> None:
    assert refuse("responses", input="Hi", **fields) == param


@each_row(
    ("fields", "param"),
    [
        ({"max_tokens": 7}, "max_tokens"),
        ({"stop_sequences": ["END", "bad"]}, "stop_sequences"),
        ({"metadata": {"user_id": "bad"}}, "metadata.user_id"),
        ({"output_config": {"format": SCHEMA}}, "output_config.format"),
        ({"output_config": {"effort": "high"}}, "output_config.effort"),
        ({"thinking": {"type": "enabled", "budget_tokens": 5000}}, "thinking"),
        ({"tools": [{"input_schema": {}, **TOOL}]}, "tools"),
    ],
)
def test_a_messages_callers_field(fields: Json, param: str) -> None:
    assert refuse("messages", **{"max_tokens": 9, "messages": [GOOD], **fields}) == param


def test_what_the_pivot_itself_refuses_is_named_too() -> None:
    """Chat's own check of a request, between both translations."""
    outer = replace(TRANSLATIONS["messages", "chat"], translate_request=_write_no_text)
    exchange = Exchange(CALLERS["messages"], UPSTREAMS["chat"], compose(outer, FUSSY, PIVOT))
    data = json.dumps({"model": "m", "max_tokens": 9, "messages": [GOOD, GOOD]}).encode()
    with pytest.raises(BadRequest) as caught:
        exchange.write_request(exchange.caller.parse_request(data), TARGET)
    assert caught.value.param == "stop_sequences"


def _write_no_text(request: CompletionRequest, _target: Target) -> Json:
    return {"model": request.model, "messages": request.body["messages"], "stop": 1}
