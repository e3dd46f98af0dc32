"""Responses requests for a chat upstream: every field carried, left out or refused."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from openai.types.responses import ResponseInputItemParam
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from gateway.dialects.records import Target
from gateway.dialects.responses.history import SUMMARIES
from gateway.dialects.responses.over_chat_request import (
    CARRIED,
    DROPPED,
    DROPPED_ITEMS,
    PASSED,
    REFUSED,
    SHARED,
)
from tests.dialects.chat.kit import Json
from tests.dialects.responses_over_chat.kit import message, output, user, write, write_messages
from tests.support.rows import each_row

PLAIN: Json = {"model": "theirs", "messages": [user("hi")]}


def test_the_least_request() -> None:
    assert write() == PLAIN


def test_every_field_of_the_schema_is_in_a_table() -> None:
    known = CARRIED | DROPPED | PASSED | REFUSED
    assert set(ResponseCreateParamsBase.__annotations__) <= known
    assert len(known) == len(CARRIED) + len(DROPPED) + len(PASSED) + len(REFUSED)


def test_fields_that_few_chat_providers_take_go_to_those_alone() -> None:
    fields = {
        "metadata": {"a": "b"},
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "service_tier": "default",
        "user": "u",
    }
    asked = {**fields, "text": {"verbosity": "low"}}
    assert write(**asked) == PLAIN
    all_of_them = frozenset({*SHARED, "verbosity"})
    taken = write(Target("theirs", takes=all_of_them), **asked)
    assert taken == {**PLAIN, **fields, "verbosity": "low"}
    assert write(Target("theirs", takes=frozenset({"user"})), **asked) == {**PLAIN, "user": "u"}


@each_row("name", sorted(REFUSED))
@each_row("value", [None, False, 0, {}])
def test_a_field_at_its_default_is_no_error(name: str, value: Any) -> None:
    assert write(**{name: value}) == PLAIN


@each_row("name", sorted(DROPPED))
def test_advice_is_left_out(name: str) -> None:
    assert write(**{name: "anything"}) == PLAIN


@each_row("kind", sorted(DROPPED_ITEMS - {"additional_tools"}))
def test_what_only_the_vendor_can_use_is_left_out_with_its_result(kind: str) -> None:
    hosted = {"type": kind, "id": "x", "call_id": "c7", "encrypted_content": "e"}
    items = (message("user", "hi"), hosted, output("c7"), {"type": "reasoning", "summary": []})
    assert write_messages(*items) == [user("hi")]


def test_every_item_of_the_schema_is_known() -> None:
    known = {"message", "function_call", "function_call_output", "item_reference"}
    known |= DROPPED_ITEMS | SUMMARIES
    known |= {"custom_tool_call", "custom_tool_call_output", "reasoning"}
    kinds: set[Any] = set()
    for model in get_args(ResponseInputItemParam):
        for one in get_args(get_type_hints(model)["type"]):
            kinds |= set(get_args(one)) or {one}
    assert len(kinds) > 20
    assert kinds - {type(None)} <= known
