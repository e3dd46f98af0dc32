"""Requests of the Responses API at the path of chat, as Cursor sends them."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from gateway.base.errors import BadRequest
from gateway.dialects.wire.records import Target
from gateway.extras.editors.caller import EditorCaller
from tests.support.formats import EXCHANGES

CALLER: Final = EditorCaller()
SCHEMA: Final = {"type": "object", "properties": {}}
GRAMMAR: Final = {"syntax": "lark", "definition": "start: x"}
SENT: Final[dict[str, Any]] = {
    "model": "m",
    "input": [
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "custom_tool_call", "call_id": "a", "name": "ApplyPatch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "ok"},
        {"type": "function_call", "call_id": "b", "name": "Shell", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "b", "output": "x"},
    ],
    "tools": [
        {"type": "function", "name": "Shell", "parameters": SCHEMA},
        {"type": "custom", "name": "ApplyPatch", "format": {"type": "grammar", **GRAMMAR}},
        {"type": "web_search"},
    ],
    "tool_choice": {"type": "function", "name": "Shell"},
    "stream": True,
    "stream_options": {"include_usage": True},
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "medium", "summary": "auto"},
    "text": {"verbosity": "low"},
    "store": False,
    "previous_response_id": None,
    "max_output_tokens": 9,
}


def test_a_request_with_input_is_read_as_chat() -> None:
    request = CALLER.parse_request(orjson.dumps(SENT))
    assert (request.stream, request.wants_usage, request.max_tokens) == (True, True, 9)
    payload = EXCHANGES["chat"]["messages"].write_request(request, Target("claude"))
    made = orjson.loads(payload.data)
    assert made["system"] == [{"type": "text", "text": "S"}]
    assert made["messages"][1]["content"] == [
        {"type": "tool_use", "id": "a", "name": "ApplyPatch", "input": {"input": "*** Begin"}}
    ]
    assert [tool["name"] for tool in made["tools"]] == ["Shell", "ApplyPatch"]
    assert made["tool_choice"] == {"type": "tool", "name": "Shell"}
    assert made["output_config"] == {"effort": "medium"}


def test_calls_of_custom_tools_reach_their_own_api_as_they_were() -> None:
    request = CALLER.parse_request(orjson.dumps(SENT))
    payload = EXCHANGES["chat"]["responses"].write_request(request, Target("gpt"))
    made = orjson.loads(payload.data)
    kinds = [item["type"] for item in made["input"] if "call_id" in item]
    assert kinds == [item["type"] for item in SENT["input"] if "call_id" in item]
    assert made["tools"][1:] == SENT["tools"][1:2]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": 5}, "input"),
        ({"input": "Hi", "store": True}, "store"),
        ({"messages": [], "input": "Hi"}, "messages"),
        ({}, "messages"),
    ],
)
def test_what_neither_api_takes_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        CALLER.parse_request(orjson.dumps({"model": "m", **fields}))
    assert caught.value.param == param
