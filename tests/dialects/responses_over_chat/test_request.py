"""Responses requests for a chat upstream: every field carried, left out or refused."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

from openai.types.responses import ResponseInputItemParam
from openai.types.responses.response_create_params import ResponseCreateParamsBase

from gateway.dialects.responses.history import SUMMARIES
from gateway.dialects.responses.over_chat_request import (
    CARRIED,
    DROPPED,
    DROPPED_ITEMS,
    PASSED,
    REFUSED,
)


def test_every_field_of_the_schema_is_in_a_table() -> None:
    known = CARRIED | DROPPED | PASSED | REFUSED
    assert set(ResponseCreateParamsBase.__annotations__) <= known
    assert len(known) == len(CARRIED) + len(DROPPED) + len(PASSED) + len(REFUSED)


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
