"""Responses input as chat messages, and its content as parts."""

from __future__ import annotations

import json
from typing import Any, get_args, get_type_hints

from openai.types.responses import ResponseInputItemParam

from gateway.dialects.responses.history import SUMMARIES
from gateway.dialects.responses_over_chat.request import DROPPED_ITEMS
from tests.dialects.chat.kit import Json
from tests.dialects.responses_over_chat.kit import (
    called,
    chat_call,
    custom_call,
    function_call,
    message,
    output,
    result,
    text,
    user,
    write_messages,
)
from tests.support.rows import each_row

HI = user("hi")


def assistant(content: str | None) -> Json:
    return {"role": "assistant", "content": content}


def test_calls_in_a_row_and_what_was_said_before_are_one_turn() -> None:
    items = (
        message("user", "hi"),
        message("assistant", [text("ho", "output_text")]),
        function_call("c1"),
        custom_call("c2", "patch", 'a"b'),
        output("c1"),
        output("c2", "ok", "custom_tool_call_output"),
        function_call("c3"),
        output("c3"),
        message("assistant", "end"),
    )
    calls = (chat_call("c1"), chat_call("c2", "patch", json.dumps({"input": 'a"b'}, separators=(",", ":"))))  # fmt: skip
    assert write_messages(*items) == [
        HI,
        called(*calls, content="ho"),
        result("c1"),
        result("c2", "ok"),
        called(chat_call("c3")),
        result("c3"),
        assistant("end"),
    ]


@each_row("kind", sorted(DROPPED_ITEMS - {"additional_tools"}))
def test_what_only_the_vendor_can_use_is_left_out_with_its_result(kind: str) -> None:
    hosted = {"type": kind, "id": "x", "call_id": "c7", "encrypted_content": "e"}
    items = (message("user", "hi"), hosted, output("c7"), {"type": "reasoning", "summary": []})
    assert write_messages(*items) == [HI]


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


def test_texts_in_files_are_texts() -> None:
    file = {"type": "input_file", "file_data": "data:text/plain;base64,aGk="}
    assert write_messages(message("user", [file])) == [user("hi")]
    assert write_messages(message("user", [{**file, "filename": "a"}])) == [user("a\nhi")]
