"""Chat callers over other dialects: schemas, and what some upstreams leave out. `requests` and `heard.txt` have the rest."""

from __future__ import annotations

import copy
import json
from enum import Enum
from typing import Any, Final, Literal

import pytest
from anthropic import transform_schema
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic import BaseModel, Field

from gateway.dialects.chat import over_messages_request
from gateway.dialects.chat.over_messages_request import adapt_schema
from gateway.dialects.records import CompletionRequest, Target
from gateway.errors import BadRequest
from gateway.extras.responses import chat_request as over_responses_request
from tests import streams
from tests.dialects.chat.kit import (
    Json,
    Played,
    check_stream,
    make_context,
    make_dice,
    play,
    random_slices,
)
from tests.extras.responses.kit import frame
from tests.streams import Stream
from tests.support.formats import CALLERS, EXCHANGES
from tests.support.fuzz import fuzz
from tests.support.messages import make_message
from tests.support.rows import each_row

TOOL: Final = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@each_row("module", [over_messages_request, over_responses_request])
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


@each_row("provider", ["messages", "responses"])
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


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)


arguments = st.dictionaries(texts, st.integers() | texts | st.lists(texts), max_size=3)


refusals = st.builds(lambda text: {"type": "refusal", "refusal": text}, texts.filter(bool))


said_parts = st.lists(
    st.builds(lambda text: {"type": "output_text", "text": text}, texts) | refusals, max_size=3
)


summaries = st.lists(
    st.builds(lambda text: {"type": "summary_text", "text": text}, texts), max_size=3
)


items = st.one_of(
    st.builds(lambda parts: {"type": "message", "content": parts}, said_parts),
    st.builds(lambda parts: {"type": "reasoning", "summary": parts}, summaries),
    st.builds(
        lambda identity, name, held: {
            "type": "function_call",
            "call_id": identity,
            "name": name,
            "arguments": json.dumps(held),
        },
        names,
        names,
        arguments,
    ),
    st.builds(
        lambda identity, name, held: {
            "type": "custom_tool_call",
            "call_id": identity,
            "name": name,
            "input": held,
        },
        names,
        names,
        texts,
    ),
)


details = st.sampled_from(
    [None, {"reason": "max_output_tokens"}, {"reason": "content_filter"}, {"reason": "new"}]
)
EXCHANGE: Final = EXCHANGES["chat"]["responses"]


@fuzz(100)
@given(
    st.lists(items, min_size=1, max_size=5), st.sampled_from(["completed", "incomplete"]), details
)
def test_a_stream_says_what_the_whole_reply_says_in_any_slicing(
    output: list[Json], status: str, detail: Json | None
) -> None:
    reply = json.dumps(
        {"object": "response", "status": status, "output": output, "incomplete_details": detail}
    ).encode()
    (choice,) = json.loads(EXCHANGE.read_reply(reply, make_context()).body)["choices"]
    body = EXCHANGE.replay_reply(reply, make_context()).body
    whole = play(EXCHANGE.open_stream(make_context()), [body])
    check_stream(whole.chunks, usage=False)
    keys, calls, finish = gather(whole)
    message = choice["message"]
    assert keys == {key: message.get(key) or "" for key in keys}
    assert calls == [
        [call["id"], *call[call["type"]].values()] for call in message.get("tool_calls", [])
    ]
    assert finish == choice["finish_reason"]
    for _ in range(3):
        pieces = random_slices(body, make_dice())
        assert play(EXCHANGE.open_stream(make_context()), pieces) == whole


def gather(played: Played) -> list[Any]:
    """Return what was said without the fragments: each key's text, and each call."""
    texts: dict[str, str] = {}
    calls: dict[int, list[str]] = {}
    for choice in played.choices:
        delta = choice["delta"]
        for key in ("reasoning_content", "content", "refusal"):
            texts[key] = texts.get(key, "") + (delta.get(key) or "")
        for part in delta.get("tool_calls", []):
            (held,) = (part[kind] for kind in ("function", "custom") if kind in part)
            made = calls.setdefault(part["index"], [part.get("id", ""), held.get("name", ""), ""])
            made[2] += held.get("arguments", held.get("input", ""))
    return [texts, list(calls.values()), played.choices[-1]["finish_reason"]]


def list_events(stream: Stream) -> list[Json]:
    """Return the events of a stream; the last one has no items, as some upstreams leave it."""
    *told, last = stream.objects
    return [*told, {**last, "response": {**last["response"], "output": []}}]


def play_events(*told: Json) -> Played:
    return play(EXCHANGE.open_stream(make_context()), [frame(*told)])


@streams.each(*streams.RESPONSES)
@each_row(
    "lacking",
    [
        (".delta",),
        (".delta", ".added"),
        (".added",),
        (".delta", "_text.done", "refusal.done", "_arguments.done", "_input.done", "_part.done"),
        ("output_item.done",),
        (".delta", "output_item.done"),
        (".delta", ".added", "_text.done", "refusal.done", "_arguments.done", "_input.done"),
    ],
)
def test_what_some_upstreams_leave_out_is_found_elsewhere(
    stream: Stream, lacking: tuple[str, ...]
) -> None:
    told = list_events(stream)
    kept = [one for one in told if not one["type"].endswith(lacking)]
    assert len(kept) < len(told)
    played = play_events(*kept)
    assert gather(played) == gather(play_events(*told))
    check_stream(played.chunks, usage=False)


@streams.each(*streams.RESPONSES)
def test_items_are_told_apart_by_their_ids_where_they_have_no_index(stream: Stream) -> None:
    told = list_events(stream)
    bare = [{key: one[key] for key in one if key != "output_index"} for one in told]
    assert gather(play_events(*bare)) == gather(play_events(*told))
