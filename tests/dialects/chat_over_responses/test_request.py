"""Chat requests as Responses requests: each line of the mapping, tools, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.dialects.chat_over_responses.request import SHARED
from tests.dialects.chat_over_responses.kit import TARGET, find_refusal, say, translate
from tests.support.rows import each_row

Json = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PLAIN = replace(TARGET, reasoning="none")


def test_request_in_full() -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert translate(messages=messages, max_tokens=20, stream=True) == {
        "model": "our/model",
        "instructions": "Be kind.",
        "input": [say("user", "Hi")],
        "max_output_tokens": 20,
        "stream": True,
    }


@each_row(
    ("body", "expected"),
    [
        ({}, {}),
        ({"stream": False}, {}),
        ({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
        ({"max_tokens": 0}, {}),
        ({"max_tokens": 1}, {"max_output_tokens": 16}),
        ({"max_tokens": 15}, {"max_output_tokens": 16}),
        ({"max_completion_tokens": 18, "max_tokens": 17}, {"max_output_tokens": 18}),
        ({"temperature": 2, "top_p": 0.5}, {"temperature": 2, "top_p": 0.5}),
        ({"verbosity": "low"}, {"text": {"verbosity": "low"}}),
        ({"response_format": {"type": "text"}}, {"text": {"format": {"type": "text"}}}),
        ({"response_format": {"type": "json_object"}, "verbosity": "high"},
         {"text": {"format": {"type": "json_object"}, "verbosity": "high"}}),
        ({"response_format": {"type": "json_schema",
              "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}},
         {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}}),
        ({"response_format": {"type": "json_schema",
              "json_schema": {"name": "n", "schema": SCHEMA, "strict": None, "description": "d"}}},
         {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "description": "d"}}}),
        ({"truncation": "auto"}, {"truncation": "auto"}),
    ],
)  # fmt: skip
def test_options_in_the_upstreams_words(body: Json, expected: Json) -> None:
    made = translate(**body)
    for always in ("model", "input"):
        del made[always]
    assert made == expected


SAME: Json = {
    "metadata": {"a": "b"},
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit"},
    "prompt_cache_retention": "24h",
    "safety_identifier": "s",
    "service_tier": "flex",
    "temperature": 0.5,
    "top_p": 0.9,
    "user": "u",
}


def test_fields_of_both_dialects_pass() -> None:
    assert set(SAME) == SHARED
    assert translate(**SAME) == {**translate(), **SAME}


@each_row(
    ("body", "reasoning"),
    [
        ({}, None),
        ({"reasoning_effort": "none"}, {"effort": "none"}),
        ({"reasoning_effort": "xhigh"}, {"effort": "xhigh"}),
        ({"reasoning": {"summary": "auto"}}, {"summary": "auto"}),
        ({"reasoning_effort": "low", "reasoning": {"summary": "auto"}},
         {"summary": "auto", "effort": "low"}),
        ({"reasoning": {"effort": "low"}}, {"effort": "low"}),
    ],
)  # fmt: skip
def test_reasoning(body: Json, reasoning: Json | None) -> None:
    assert translate(**body).get("reasoning") == reasoning
    assert translate(replace(TARGET, reasoning="budget"), **body).get("reasoning") == reasoning


def test_a_model_that_does_not_reason_is_not_asked_to() -> None:
    for word in ("none", "medium"):
        assert translate(PLAIN, reasoning_effort=word) == translate()
    assert find_refusal(PLAIN, reasoning_effort="high") == "reasoning_effort"
    assert find_refusal(PLAIN, reasoning_effort=[]) == "reasoning_effort"


NONE: Json = {"type": "object", "properties": {}}
F: Json = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
MADE: Json = {"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}
GRAMMAR: Json = {"syntax": "lark", "definition": "start: x"}
C: Json = {"type": "custom", "custom": {"name": "c"}}


def function(**fields: Any) -> Json:
    return {"type": "function", "function": {"name": "f", **fields}}


def name(kind: str, tool: str) -> Json:
    return {"type": kind, kind: {"name": tool}}


@each_row(
    ("tool", "expected"),
    [
        (F, MADE),
        ({"function": {"name": "f", "parameters": SCHEMA}}, MADE),
        (function(), {**MADE, "parameters": NONE}),
        (function(parameters={}), {**MADE, "parameters": NONE}),
        (function(description="Does.", parameters=SCHEMA, strict=True),
         {**MADE, "description": "Does.", "strict": True}),
        (C, {"type": "custom", "name": "c"}),
        ({"type": "custom",
          "custom": {"name": "c", "description": "Does.",
                     "format": {"type": "grammar", "grammar": GRAMMAR}}},
         {"type": "custom", "name": "c", "description": "Does.",
          "format": {"type": "grammar", **GRAMMAR}}),
        ({"type": "custom", "custom": {"name": "c", "format": {"type": "text"}}},
         {"type": "custom", "name": "c", "format": {"type": "text"}}),
    ],
)  # fmt: skip
def test_tools(tool: Json, expected: Json) -> None:
    """A tool that is not called strict is not: there, a function without the word would be."""
    assert translate(tools=[tool])["tools"] == [expected]


@each_row(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ("none", "none"),
        (name("function", "f"), {"type": "function", "name": "f"}),
        (name("custom", "c"), {"type": "custom", "name": "c"}),
        ({"type": "allowed_tools",
          "allowed_tools": {"mode": "required", "tools": [name("function", "f"), name("custom", "c")]}},
         {"type": "allowed_tools", "mode": "required",
          "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]}),
    ],
)  # fmt: skip
def test_choices(choice: Any, expected: Any) -> None:
    assert translate(tools=[F, C], tool_choice=choice)["tool_choice"] == expected


def test_functions_are_tools_that_are_called_one_at_a_time() -> None:
    functions = [{"name": "f", "parameters": SCHEMA}]
    made = translate(functions=functions, function_call={"name": "f"})
    assert made["tools"] == [MADE]
    assert made["tool_choice"] == {"type": "function", "name": "f"}
    assert made["parallel_tool_calls"] is False
    assert translate(functions=functions, function_call="none")["tool_choice"] == "none"


@each_row("parallel", [True, False])
def test_parallel_calls(*, parallel: bool) -> None:
    assert translate(tools=[F], parallel_tool_calls=parallel)["parallel_tool_calls"] is parallel
    assert "parallel_tool_calls" not in translate(tools=[F])
    assert translate(parallel_tool_calls=parallel) == translate()


@each_row(
    ("body", "field"),
    [
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].custom.name"),
        ({"tools": [F], "tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tools": [F], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools"),
        ({"tools": [F], "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "mcp"}]}}},
         "tool_choice.allowed_tools.tools[0].type"),
    ],
)  # fmt: skip
def test_tools_that_cannot_be_carried_over_are_named(body: Json, field: str) -> None:
    assert find_refusal(**body) == field
