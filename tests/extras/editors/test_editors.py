"""Requests of the Responses API at the path of chat, as Cursor sends them."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Final

import orjson
import pytest

from gateway.base.errors import BadRequest
from gateway.dialects.wire.records import Target
from gateway.extras.editors.blocks import write_blocks
from gateway.extras.editors.caller import EditorCaller
from tests.dialects.chat.kit import make_context
from tests.support.formats import EXCHANGES
from tests.support.replies import completion, dumps

CALLER: Final = EditorCaller()
TARGET: Final = Target("theirs")
CALLED: Final = {"name": "f", "arguments": "{}"}
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


def test_a_request_for_a_summary_gets_no_tools() -> None:
    trigger = {"type": "compaction_trigger"}
    sent = {**SENT, "input": [*SENT["input"], trigger], "tools": [5], "tool_choice": "required"}
    body = CALLER.parse_request(orjson.dumps(sent)).body
    assert not {"tools", "tool_choice"} & body.keys()


def test_a_limit_goes_by_the_name_that_the_provider_takes() -> None:
    body = CALLER.parse_request(orjson.dumps(SENT)).body
    payload = EXCHANGES["chat"]["chat"].write_request(
        CALLER.parse_request(orjson.dumps(SENT)), TARGET
    )
    assert (body["max_tokens"], orjson.loads(payload.data)["max_tokens"]) == (9, 9)


DEEP: Final = b'{"a":' * 1000 + b"1" + b"}" * 1000


@pytest.mark.parametrize(
    "message",
    [
        b'{"tool_calls":[{"id":%b}],"content":[{"type":"tool_use","id":%b,"name":"f"}]}'
        % (DEEP, DEEP),
        b'{"content":[{"type":"tool_use","id":"a","name":"f","input":%b}]}' % DEEP,
        b'{"content":[{"type":"tool_use","id":"a","name":"f"},'
        b'{"type":"image","source":{"media_type":"image/png","data":%b}}]}' % DEEP,
    ],
)
def test_deep_blocks_are_refused(message: bytes) -> None:
    data = b'{"model":"m","messages":[{"role":"assistant",%b]}' % message[1:]
    with pytest.raises(BadRequest):
        EXCHANGES["chat"]["chat"].write_request(CALLER.parse_request(data), TARGET)


def test_many_calls_in_both_forms_take_no_time_for_each_pair() -> None:
    calls = [{"id": f"a{n}", "type": "function", "function": CALLED} for n in range(20_000)]
    blocks = [{"type": "tool_use", "id": f"b{n}", "name": "f"} for n in range(10_000)]
    message = {"role": "assistant", "tool_calls": calls, "content": blocks}
    began = time.process_time()
    (written,) = write_blocks({"messages": [message]})["messages"]
    assert time.process_time() - began < 2.0  # pairs would take ten times as long
    assert len(written["tool_calls"]) == 30_000


def test_a_reply_without_a_call_of_a_flat_custom_tool_keeps_its_bytes() -> None:
    reply = dumps(completion("Hi")).replace(b'"choices":', b'"choices" :')
    tools = [{"type": "custom", "name": "patch"}]
    read = partial(EXCHANGES["chat"]["chat"].read_reply, reply)
    shown = read(make_context({"model": "m", "tools": tools})).body
    assert shown == read(make_context({"model": "m"})).body
    assert b'"choices" :' in shown
