"""Chat callers over other dialects: schemas, and what some upstreams leave out. `requests` and `heard.txt` have the rest."""

from __future__ import annotations

import copy
import json
from enum import Enum
from importlib import import_module
from typing import Any, Final, Literal

import pytest
from anthropic import transform_schema
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic import BaseModel, Field

from gateway.base.errors import BadRequest
from gateway.dialects.translate.schemas import adapt_schema
from gateway.dialects.wire.records import CompletionRequest, Target
from tests.dialects.chat.kit import Json, make_context
from tests.support.formats import CALLERS, EXCHANGES, TRANSLATIONS
from tests.support.messages import make_message
from tests.support.rows import each_row

TOOL: Final = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@each_row(
    "module",
    [
        import_module(one.translate_request.__module__)
        for (caller, _), one in TRANSLATIONS.items()
        if caller == "chat"
    ],
)
def test_every_field_of_the_chat_schema_is_in_one_table(module: Any) -> None:
    """A table has no other field: a name that the SDK adds must be decided on here."""
    schema = {
        *CompletionCreateParamsNonStreaming.__annotations__,
        *CompletionCreateParamsStreaming.__annotations__,
    }
    tables = [*module.CARRIED, *module.DROPPED, *module.REFUSED]
    assert sorted(tables) == sorted(schema)
    assert not module.PASSED & schema


def read_request(**body: Any) -> CompletionRequest:
    whole = {"model": "our/model", "messages": [{"role": "user", "content": "Hi"}], **body}
    return CALLERS["chat"].parse_request(json.dumps(whole).encode())


@each_row("provider", [one for one in EXCHANGES if one != "chat"])
def test_the_callers_request_is_left_as_it_was(provider: str) -> None:
    """The next route may use another dialect."""
    request = read_request(
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "a"}]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}]},
            {"role": "user", "content": "b"},
        ],
        tools=[TOOL],
        parallel_tool_calls=False,
        reasoning_effort="low",
        metadata={"a": "b"},
    )
    before = json.dumps(request.body)
    EXCHANGES["chat"][provider].write_request(request, Target("theirs"))
    assert json.dumps(request.body) == before


def test_request_that_cannot_be_written_is_refused() -> None:
    schema = json.loads('{"items":' * 300 + "{}" + "}" * 300)
    function = {"name": "f", "parameters": schema}
    request = read_request(tools=[{"type": "function", "function": function}])
    with pytest.raises(BadRequest, match="nested too deeply"):
        EXCHANGES["chat"]["messages"].write_request(request, Target("theirs"))


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


def test_broken_text_of_the_upstream_passes() -> None:
    body = json.dumps(make_message("HERE")).encode().replace(b"HERE", b"\\ud800\xff")
    made = EXCHANGES["chat"]["messages"].read_reply(b"\n\n" + body, make_context())
    assert json.loads(made.body)["choices"][0]["message"]["content"] == "\ud800\ufffd"
