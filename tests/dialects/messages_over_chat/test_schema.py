"""Which schemas OpenAI's strict mode takes."""

from __future__ import annotations

from typing import Any

from gateway.dialects.messages_over_chat.tools import is_strict
from tests.dialects.chat.kit import Json
from tests.support.rows import each_row

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
