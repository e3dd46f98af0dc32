"""Chat tools, functions and choices as messages tools; schemas as Anthropic's SDK adapts them."""

from __future__ import annotations

import copy
from enum import Enum
from typing import Any, Literal

from anthropic import transform_schema
from pydantic import BaseModel, Field

from gateway.dialects.chat_over_messages.request import adapt_schema
from tests.dialects.chat_over_messages.kit import check_request, translate
from tests.support.rows import each_row

OTHER = {"type": "function", "function": {"name": "get_time"}}
NO_SCHEMA = {"type": "object", "properties": {}}
Json = dict[str, Any]


def test_tools_of_the_past_are_declared_but_not_offered() -> None:
    """The upstream refuses a conversation that has calls but no tools."""
    function = {"name": "get_weather", "arguments": "{}"}
    call = {"id": "c", "type": "function", "function": function}
    messages = [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "Cloudy"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "Sunny"},
    ]
    made = translate(messages=messages)
    check_request(made)
    assert made["tools"] == [{"name": "get_weather", "input_schema": NO_SCHEMA}]
    assert made["tool_choice"] == {"type": "none"}
    assert translate(messages=messages, tools=[OTHER])["tools"][0]["name"] == "get_time"


TEXT: Json = {"type": "string"}


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    text: str = Field(pattern="^a", min_length=1, max_length=9, description="A line.")
    number: int = Field(ge=1, lt=9, multiple_of=2)
    color: Color
    kind: Literal["a"] = "a"


class Page(BaseModel):
    """A page."""

    lines: list[Line] = Field(min_length=1)
    notes: dict[str, int] = {}
    next: Page | None = None


@each_row(
    "schema",
    [
        Page.model_json_schema(),
        TEXT,
        {"type": "string", "format": "email"},
        {"type": "string", "format": "binary"},
        {"type": "string", "pattern": "^a", "minLength": 1, "maxLength": 2, "title": "T"},
        {"type": "number", "exclusiveMinimum": 0, "description": "d"},
        {"type": "integer", "minimum": 1, "maximum": 10, "multipleOf": 2, "default": 4},
        {"type": "array", "items": TEXT, "minItems": 1},
        {"type": "array", "items": TEXT, "minItems": 0, "maxItems": 3, "uniqueItems": True},
        {"type": "array", "items": {"type": "object"}, "minItems": 2},
        {"type": "array"},
        {"type": "object"},
        {"type": "object", "additionalProperties": TEXT, "minProperties": 1},
        {"type": "object", "properties": {"a": {"oneOf": [TEXT, {"type": "object"}]}}},
        {"type": "object", "properties": {"type": TEXT, "oneOf": TEXT}, "required": ["type"]},
        {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 1}]},
        {"anyOf": [{"type": "object"}], "type": "object", "description": "d"},
        {"allOf": [{"type": "object", "properties": {"a": {"type": "number", "maximum": 1}}}]},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "const": "a"},
        {"type": "array", "enum": [[1]]},
        {"enum": ["a", 1, True, None], "description": "d"},
        {"$ref": "#/$defs/A", "description": "d", "$defs": {"A": {"type": "object"}}},
        {"type": "boolean"},
        {"type": "null"},
    ],
)
def test_schemas_are_adapted_as_the_sdk_does(schema: Json) -> None:
    before = copy.deepcopy(schema)
    adapted = adapt_schema(schema)
    assert adapted == transform_schema(copy.deepcopy(schema))
    assert schema == before
    assert adapt_schema(adapted) == adapted


@each_row(
    ("schema", "expected"),
    [
        ({"type": ["object", "null"], "properties": {"a": {"type": ["string", "null"]}}},
         {"type": ["object", "null"], "properties": {"a": {"type": ["string", "null"]}},
          "additionalProperties": False}),
        ({"properties": {"a": TEXT}},
         {"type": "object", "properties": {"a": TEXT}, "additionalProperties": False}),
        ({"$ref": "#/definitions/A", "definitions": {"A": {"type": "array", "maxItems": 1}}},
         {"$ref": "#/definitions/A",
          "definitions": {"A": {"type": "array", "description": "{maxItems: 1}"}}}),
        ({}, {}),
        (True, True),
        ({"type": 7}, {}),
        ({"type": "array", "items": True}, {"type": "array", "description": "{items: True}"}),
        ({"anyOf": 7, "oneOf": []}, {"description": "{anyOf: 7, oneOf: []}"}),
    ],
)  # fmt: skip
def test_schemas_that_the_sdk_refuses(schema: Any, expected: Any) -> None:
    assert adapt_schema(schema) == expected
