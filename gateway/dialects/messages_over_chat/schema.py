"""JSON schemas that OpenAI's strict mode takes."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.wire.jsonbytes import get_list, get_object

_REFUSED: Final = frozenset(
    {
        *("allOf", "dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf", "then"),
        *("maxProperties", "minProperties", "patternProperties", "propertyNames"),
        *("contains", "prefixItems", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    }
)
"""Keywords that OpenAI names as not supported ("Structured model outputs"), now or for a time."""
_SAYS_KIND: Final = frozenset({"type", "anyOf", "$ref", "enum", "const"})
_MAPS: Final = ("properties", "$defs", "definitions")


def is_strict(schema: Any) -> bool:
    """Return whether each schema in this one says its kind, and each object is closed and whole.

    The answer may be no where it could be yes: then the tool is sent, and is not strict.
    """
    if type(schema) is not dict or _SAYS_KIND.isdisjoint(schema):
        return False
    kind, properties = schema.get("type"), get_object(schema, "properties")
    if kind == "object" or (isinstance(kind, list) and "object" in kind) or properties:
        is_whole = properties.keys() <= set(map(str, get_list(schema, "required")))
        if not is_whole or schema.get("additionalProperties") is not False:
            return False
    inner = [one for key in _MAPS for one in get_object(schema, key).values()]
    inner += get_list(schema, "anyOf")
    if "items" in schema:
        inner.append(schema["items"])
    return _REFUSED.isdisjoint(schema) and all(map(is_strict, inner))
