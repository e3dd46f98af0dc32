"""Messages requests as chat requests: each line of the mapping, tools, schemas, and what is refused."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase

from gateway.dialects.messages.over_chat_conversation import is_strict
from gateway.dialects.messages.over_chat_request import CARRIED, DROPPED, PASSED, REFUSED
from gateway.errors import BadRequest
from tests.dialects.chat.kit import Json
from tests.dialects.messages_over_chat.kit import EXCHANGE, assistant, tool_use, user, write
from tests.support.rows import each_row


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


TEXT: Json = {"type": "string"}


def closed(*required: str, **properties: Any) -> Json:
    made = {"properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "object", **made}


@each_row(
    ("schema", "strict"),
    [
        (TEXT, True),
        (closed("a", a=TEXT), True),
        (closed("a", "b", a=TEXT, b=closed()), True),
        ({"type": "object", "additionalProperties": False}, True),
        (closed("a", a={"type": "array", "items": closed("b", b=TEXT)}), True),
        ({**closed("a", a={"$ref": "#/$defs/B"}), "$defs": {"B": closed("b", b=TEXT)}}, True),
        (closed(a=TEXT), False),
        (closed("a", a=TEXT, b=TEXT), False),
        ({"type": "object"}, False),
        ({**closed("a", a=TEXT), "additionalProperties": True}, False),
        ({**closed("a", a=TEXT), "type": ["object", "null"]}, True),
        ({**closed(a=TEXT), "type": ["object", "null"]}, False),
        (closed("a", a=closed(b=TEXT)), False),
        (closed("a", a={"type": "array", "items": closed(b=TEXT)}), False),
        (closed("a", a={"anyOf": [TEXT, closed(b=TEXT)]}), False),
        ({**closed("a", a={"$ref": "#/$defs/B"}), "$defs": {"B": closed(b=TEXT)}}, False),
        (closed("a", a={"allOf": [TEXT]}), False),
        (closed("a", a={"not": TEXT}), False),
        ({"type": "object", "properties": 7, "required": 7, "additionalProperties": False}, True),
        ({"type": 7}, True),
        (closed("a", a={}), False),
        (closed("a", a=True), False),
        (closed("a", a={"enum": [1]}), True),
        (closed("a", a={"type": "array", "items": {}}), False),
        (closed("a", a={"type": "array", "items": [TEXT]}), False),
        (closed("type", type=TEXT), True),
        (closed("not", **{"not": TEXT}), True),
        ({"properties": {"a": TEXT}, "enum": [1]}, False),
        ({**closed(), "patternProperties": {"^a": TEXT}}, False),
    ],
)
def test_strict_schemas(schema: Json, strict: bool) -> None:
    assert is_strict(schema) is strict


DEEP: Any = {}

for _ in range(300):
    DEEP = {"a": DEEP}


def test_arguments_nested_too_deeply_to_write_are_the_callers_fault() -> None:
    use = tool_use(input=DEEP)
    try:
        orjson.dumps(DEEP)
    except TypeError:
        with pytest.raises(BadRequest, match="deeply"):
            write(messages=[assistant(use)])
    else:
        raise AssertionError("the example is not deep enough")


def test_documents_within_documents_beyond_pythons_stack_are_the_callers_fault() -> None:
    content: list[Json] = [{"type": "text", "text": "x"}]
    for _ in range(500):
        content = [{"type": "document", "source": {"type": "content", "content": content}}]
    with pytest.raises(BadRequest, match="deeply"):
        write(messages=[user(*content)])
