"""Chat tools as Responses tools, and the choice among them."""

from __future__ import annotations

from typing import Any

from tests.dialects.chat_over_responses.kit import find_refusal, translate
from tests.support.rows import each_row

Json = dict[str, Any]

SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}
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


@each_row("body", [{"tools": []}, {"tool_choice": "auto"}, {"tools": [], "tool_choice": "none"}])
def test_nothing_is_said_of_no_tools(body: Json) -> None:
    assert translate(**body) == translate()


@each_row(
    ("body", "field"),
    [
        ({"tools": {}, "tool_choice": "auto"}, None),
        ({"tools": "f"}, "tools"),
        ({"tools": [7]}, "tools[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": []}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [function(parameters=[])]}, "tools[0].function.parameters"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].custom.name"),
        ({"functions": [{}]}, "functions[0].name"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [F], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [F], "tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tools": [F], "tool_choice": {"name": "f"}}, "tool_choice"),
        ({"tools": [F], "tool_choice": {"type": "allowed_tools"}}, "tool_choice.allowed_tools"),
        ({"tools": [F],
          "tool_choice": {"type": "allowed_tools",
              "allowed_tools": {"mode": "auto", "tools": [{"type": "mcp"}]}}},
         "tool_choice.allowed_tools.tools[0].type"),
        ({"tools": [F], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_over_is_named(body: Json, field: str | None) -> None:
    if field is None:
        assert translate(**body) == translate()
    else:
        assert find_refusal(**body) == field
