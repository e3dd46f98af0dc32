"""A messages request for a chat upstream: fields carried over, left out and refused."""

from __future__ import annotations

import dataclasses
import json

from anthropic.types.message_create_params import MessageCreateParamsBase

from gateway.dialects.messages_over_chat.request import (
    CARRIED,
    DROPPED,
    MAX_USER_CHARS,
    PASSED,
    REFUSED,
)
from gateway.dialects.records import Taken, Target
from tests.dialects.chat.kit import Json
from tests.dialects.messages_over_chat.kit import EXCHANGE, TARGET
from tests.dialects.messages_over_chat.requests import (
    BILLING,
    FUNCTION,
    TOOL,
    USER,
    write,
)
from tests.support.rows import each_row

STRICT: Json = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}


def test_marks_for_the_prompt_cache_stay_where_they_are_taken() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    text = {"type": "text", "text": "Hi", **mark}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "x", **mark}
    asked: Json = {
        **mark,
        "system": [{"type": "text", "text": "Be brief."}, text],
        "tools": [{**TOOL, **mark}],
        "messages": [
            {"role": "user", "content": [text]},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
    }
    taken = write(dataclasses.replace(TARGET, takes=frozenset({"cache_control"})), **asked)
    assert taken["cache_control"] == mark["cache_control"]
    assert taken["tools"] == [{"type": "function", "function": FUNCTION, **mark}]
    system, user, _, told = taken["messages"]
    assert system["content"] == [{"type": "text", "text": "Be brief."}, text]
    assert user["content"] == [text]
    assert told["content"] == [{"type": "text", "text": "x", **mark}]
    assert b"cache_control" not in json.dumps(write(**asked)).encode()


def test_what_few_chat_providers_take_goes_to_those_alone() -> None:
    session = "user_0_session_" + "1" * 60
    asked = {"top_k": 5, "metadata": {"user_id": session}}
    takes: frozenset[Taken] = frozenset({"top_k", "prompt_cache_key"})
    written = write(dataclasses.replace(TARGET, takes=takes), **asked)
    assert written.pop("top_k") == 5
    key = written.pop("prompt_cache_key")
    assert len(key) == MAX_USER_CHARS
    assert key != session[:64]
    assert written == write()
    again = write(dataclasses.replace(TARGET, takes=takes), metadata={"user_id": "me"})
    assert (again["prompt_cache_key"], again["user"]) == ("me", "me")


def test_least_request() -> None:
    assert write() == {"model": "theirs", "messages": [USER], "max_tokens": 9}


@each_row(
    ("fields", "expected"),
    [
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"temperature": 0}, {"temperature": 0}),
        ({"temperature": None, "top_p": None, "top_k": None}, {}),
        ({"stop_sequences": ["a", "b", "c", "d"]}, {"stop": ["a", "b", "c", "d"]}),
        ({"stop_sequences": []}, {}),
        ({"stream": False}, {}),
        ({"tools": []}, {}),
        ({"tools": [TOOL]}, {"tools": [{"type": "function", "function": FUNCTION}]}),
        (
            {"tools": [{**TOOL, "type": "custom", "description": "d", "strict": True, "cache_control": {}, "input_examples": [{}], "eager_input_streaming": True, "defer_loading": True, "allowed_callers": ["direct"]}]},
            {"tools": [{"type": "function", "function": {**FUNCTION, "description": "d", "strict": False}}]},
        ),
        ({"tools": [{**TOOL, "name": "n" * 64}]}, {"tools": [{"type": "function", "function": {**FUNCTION, "name": "n" * 64}}]}),
        ({"metadata": {"user_id": "u" * 64}}, {"user": "u" * 64}),
        ({"metadata": {"user_id": "u" * 65}}, {}),
        ({"metadata": {"user_id": None}}, {}),
        ({"metadata": {}}, {}),
        ({"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
         {"response_format": {"type": "json_schema",
              "json_schema": {"name": "response", "schema": {"type": "object"}, "strict": False}}}),
        ({"output_config": {"format": {"type": "json_schema", "schema": STRICT}},
          "tools": [{"name": "f", "input_schema": STRICT, "strict": True}]},
         {"response_format": {"type": "json_schema",
              "json_schema": {"name": "response", "schema": STRICT, "strict": True}},
          "tools": [{"type": "function",
                     "function": {"name": "f", "parameters": STRICT, "strict": True}}]}),
        ({"tools": [{"name": "f", "input_schema": STRICT, "strict": False}]},
         {"tools": [{"type": "function",
                     "function": {"name": "f", "parameters": STRICT, "strict": False}}]}),
    ],
)  # fmt: skip
def test_top_level_fields(fields: Json, expected: Json) -> None:
    assert write(**fields) == {**write(), **expected}


def test_stream_asks_for_usage_where_the_upstream_takes_it() -> None:
    assert write(stream=True) == {
        **write(),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert write(Target("theirs", ask_usage=False), stream=True) == {**write(), "stream": True}


def test_limit_is_called_as_the_upstream_calls_it() -> None:
    written = write(Target("theirs", max_tokens_field="max_completion_tokens"))
    assert written["max_completion_tokens"] == 9
    assert "max_tokens" not in written


def enabled(budget: int) -> Json:
    return {"thinking": {"type": "enabled", "budget_tokens": budget, "display": "summarized"}}


EFFORTS: list[tuple[Json, str | None]] = [
    ({}, None),
    ({"thinking": None, "output_config": None}, None),
    ({"output_config": {"effort": None}}, None),
    ({"output_config": {"effort": "xhigh"}}, "xhigh"),
    ({"thinking": {"type": "disabled"}}, None),
    ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, None),
    ({"thinking": {"type": "adaptive"}}, "medium"),
    ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, "low"),
    ({"thinking": {"type": "between_tools"}}, "medium"),
    (enabled(1023), "minimal"),
    (enabled(1024), "low"),
    (enabled(2047), "low"),
    (enabled(2048), "medium"),
    (enabled(4095), "medium"),
    (enabled(4096), "high"),
]


@each_row(("fields", "effort"), EFFORTS)
def test_reasoning_effort_is_sent_only_to_models_that_take_one(
    fields: Json, effort: str | None
) -> None:
    assert write(**fields).get("reasoning_effort") == effort
    for reasoning in ("budget", "none"):
        deaf = dataclasses.replace(TARGET, reasoning=reasoning)
        assert "reasoning_effort" not in write(deaf, **fields)


def test_what_a_coding_agent_always_sends_is_accepted() -> None:
    advice: Json = {
        "betas": ["x"],
        "cache_control": {"type": "ephemeral"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "diagnostics": {"previous_message_id": None},
        "inference_geo": "us",
        "service_tier": "auto",
        "thread": {"type": "create"},
    }
    assert set(advice) == DROPPED
    agent = {
        **advice,
        "metadata": {"user_id": json.dumps({"device_id": "d" * 64, "session_id": "s" * 36})},
        "speed": "standard",
        "container": None,
        "mcp_servers": [],
        "system": [BILLING],
    }
    assert write(**agent) == write()


def test_every_field_of_the_sdk_is_decided_on() -> None:
    sent_as_headers = {"user_profile_id", "workspace_id"}
    decided = CARRIED | PASSED | DROPPED | set(REFUSED) | sent_as_headers
    assert set(MessageCreateParamsBase.__annotations__) - decided == set()
    assert not (CARRIED | PASSED) & DROPPED
    assert not set(REFUSED) & (CARRIED | PASSED | DROPPED)


def test_key_goes_where_a_chat_upstream_wants_it() -> None:
    assert EXCHANGE.upstream.path == "/chat/completions"
    assert EXCHANGE.upstream.auth_headers("k") == {"Authorization": "Bearer k"}
    assert EXCHANGE.upstream.auth_headers("") == {}
