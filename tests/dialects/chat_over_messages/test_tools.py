"""Schemas of tools and of replies, adapted as Anthropic's SDK does. `requests` has the rest."""

from __future__ import annotations

import copy
from enum import Enum
from typing import Any, Literal

from anthropic import transform_schema
from pydantic import BaseModel, Field

from gateway.dialects.chat.over_messages_request import adapt_schema
from tests.support.rows import each_row

Json = dict[str, Any]


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
        {
            "type": "object",
            "properties": {
                name: {"type": "string", "format": name}
                for name in ("date", "date-time", "duration", "hostname", "ipv4", "ipv6", "time")
            },
        },
        {"type": "array", "items": {"type": "string", "format": "uri"}},
        {"type": "array", "items": {"type": "string", "format": "uuid"}},
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
