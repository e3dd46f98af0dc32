"""A messages request for a chat upstream: fields carried over, left out and refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase

from gateway.dialects import Target
from gateway.dialects.messages_over_chat.conversation import FILES_NOTE
from gateway.dialects.messages_over_chat.request import CARRIED, DROPPED, PASSED, REFUSED
from gateway.errors import BadRequest
from tests.dialects.chat.kit import Json
from tests.dialects.messages_over_chat.kit import EXCHANGE, TARGET
from tests.dialects.messages_over_chat.requests import (
    FUNCTION,
    PDF,
    PDF_URL,
    PNG,
    PNG_PART,
    TOOL,
    USER,
    assistant,
    text,
    tool_result,
    tool_use,
    user,
    write,
    write_messages,
)


def test_least_request() -> None:
    assert write() == {"model": "theirs", "messages": [USER], "max_tokens": 9}


CACHED = {"cache_control": {"type": "ephemeral"}}
BILLING = text("x-anthropic-billing-header: cc_version=2.1; cch=1")


@pytest.mark.parametrize(
    ("system", "content"),
    [
        (None, None),
        ("", None),
        ([], None),
        ("be brief", "be brief"),
        ([text("one", **CACHED), text("two")], "one\n\ntwo"),
        ([BILLING, text("one")], "one"),
        ([BILLING], None),
        ("x-anthropic-billing-header: is what this text is about", "x-anthropic-billing-header: is what this text is about"),
    ],
)  # fmt: skip
def test_system_becomes_one_message_in_front(system: Any, content: str | None) -> None:
    expected = [] if content is None else [{"role": "system", "content": content}]
    assert write_messages(USER, system=system) == [*expected, USER]


@pytest.mark.parametrize("content", ["now", [text("now")]])
def test_system_within_the_conversation_keeps_its_place(content: Any) -> None:
    later = {"role": "system", "content": content}
    expected = [USER, {"role": "system", "content": "now"}, USER]
    assert write_messages(USER, later, USER) == expected


@pytest.mark.parametrize(
    ("block", "parts"),
    [
        (text("a", citations=None, **CACHED), "a"),
        ({"type": "image", "source": PNG, **CACHED}, [PNG_PART]),
        (
            {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
            [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}],
        ),
        (
            {"type": "document", "source": PDF, "citations": {"enabled": True}},
            [{"type": "file", "file": {"filename": "document.pdf", "file_data": PDF_URL}}],
        ),
        (
            {"type": "document", "source": PDF, "title": "a.pdf", "context": "draft"},
            [text("draft"), {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}}],
        ),
        (
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
            "d",
        ),
        (
            {"type": "document", "title": "T", "context": "C", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
            [text("T\nC"), text("d")],
        ),
        (
            {"type": "document", "source": {"type": "content", "content": [text("d"), {"type": "image", "source": PNG}]}},
            [text("d"), PNG_PART],
        ),
        ({"type": "document", "source": {"type": "content", "content": "d"}}, "d"),
    ],
)  # fmt: skip
def test_user_blocks(block: Json, parts: Any) -> None:
    assert write_messages(user(block)) == [{"role": "user", "content": parts}]


def test_several_user_blocks_keep_their_order() -> None:
    written = write_messages(user(text("a"), {"type": "image", "source": PNG}, text("b")))
    assert written == [{"role": "user", "content": [text("a"), PNG_PART, text("b")]}]


@pytest.mark.parametrize(
    ("result", "content"),
    [
        ({}, ""),
        ({"content": None}, ""),
        ({"content": "18 C"}, "18 C"),
        ({"content": [text("18"), text("C", **CACHED)]}, "18\n\nC"),
        ({"content": "gone", "is_error": True}, "Error: gone"),
        ({"is_error": True}, "Error: "),
        ({"content": "18", "is_error": False}, "18"),
        ({"content": [{"type": "tool_reference", "tool_name": "g"}]}, "[Tool found: g]"),
        (
            {"content": [{"type": "document", "source": {"type": "text", "data": "d"}}]},
            "d",
        ),
    ],
)
def test_tool_result_becomes_a_tool_message(result: Json, content: str) -> None:
    expected = {"role": "tool", "tool_call_id": "t1", "content": content}
    assert write_messages(user(tool_result(**result))) == [expected]


def test_tool_messages_come_before_what_else_the_user_said() -> None:
    written = write_messages(
        user(text("a"), tool_result("t1", content="1"), text("b")),
        user(tool_result("t2", content="2")),
    )
    assert [one["role"] for one in written] == ["tool", "tool", "user"]
    assert [one["tool_call_id"] for one in written[:2]] == ["t1", "t2"]
    assert written[2]["content"] == [text("a"), text("b")]


def test_images_of_a_result_move_into_a_user_message_and_the_tool_message_says_so() -> None:
    image = {"type": "image", "source": PNG}
    written = write_messages(user(tool_result(content=[text("seen"), image]), text("and?")))
    tool, said = written
    assert tool == {"role": "tool", "tool_call_id": "t1", "content": f"seen\n\n{FILES_NOTE}"}
    label = text("[From the result of tool call t1:]")
    assert said == {"role": "user", "content": [label, PNG_PART, text("and?")]}


def test_assistant_turn() -> None:
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":[1,"ä"]}'}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    use = {**tool_use(input={"a": [1, "ä"]}), "caller": {"type": "direct"}, **CACHED}
    said = {"role": "assistant", "content": "ab", "tool_calls": [call]}
    expected = [
        ({"role": "assistant", "content": "a"}, {"role": "assistant", "content": "a"}),
        (assistant(thinking, redacted, text("a"), text("b"), use), said),
        (assistant(use), {**said, "content": None}),
        (assistant(text(""), use), {**said, "content": None}),
        (assistant(thinking), {"role": "assistant", "content": ""}),
    ]
    for turn, message in expected:
        assert write_messages(USER, turn) == [USER, message]


def test_consecutive_assistant_turns_are_one_so_that_their_calls_can_be_answered() -> None:
    written = write_messages(
        USER,
        assistant(text("a"), tool_use("t1")),
        assistant(text("b"), tool_use("t2")),
        user(tool_result("t1"), tool_result("t2")),
    )
    assert [one["role"] for one in written] == ["user", "assistant", "tool", "tool"]
    assert written[1]["content"] == "a\n\nb"
    assert [call["id"] for call in written[1]["tool_calls"]] == ["t1", "t2"]


@pytest.mark.parametrize(
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
            {"tools": [{"type": "function", "function": {**FUNCTION, "description": "d", "strict": True}}]},
        ),
        ({"tools": [{**TOOL, "name": "n" * 64}]}, {"tools": [{"type": "function", "function": {**FUNCTION, "name": "n" * 64}}]}),
        ({"metadata": {"user_id": "u" * 64}}, {"user": "u" * 64}),
        ({"metadata": {"user_id": "u" * 65}}, {}),
        ({"metadata": {"user_id": None}}, {}),
        ({"metadata": {}}, {}),
        (
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
            {"response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": {"type": "object"}, "strict": True}}},
        ),
    ],
)  # fmt: skip
def test_top_level_fields(fields: Json, expected: Json) -> None:
    assert write(**fields) == {**write(), **expected}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        (
            {"type": "tool", "name": "f"},
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        ),
        (
            {"type": "auto", "disable_parallel_tool_use": True},
            {"tool_choice": "auto", "parallel_tool_calls": False},
        ),
        ({"type": "none", "disable_parallel_tool_use": True}, {"tool_choice": "none"}),
        ({"type": "any", "disable_parallel_tool_use": False}, {"tool_choice": "required"}),
    ],
)
def test_tool_choice(choice: Json, expected: Json) -> None:
    assert write(tools=[TOOL], tool_choice=choice) == {**write(tools=[TOOL]), **expected}


def test_tool_choice_without_tools_is_left_out_where_it_asks_for_none() -> None:
    assert write(tool_choice={"type": "auto", "disable_parallel_tool_use": True}) == write()
    with pytest.raises(BadRequest, match="tool_choice"):
        write(tool_choice={"type": "any"})


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
    ({"thinking": {"type": "disabled"}}, "none"),
    ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, "none"),
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


@pytest.mark.parametrize(("fields", "effort"), EFFORTS)
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
