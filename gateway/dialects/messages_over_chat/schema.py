"""JSON schemas that OpenAI's strict mode takes."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.wire import get_list, get_object

_REFUSED: Final = frozenset(
    {"allOf", "dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
"""Keywords that OpenAI names as not supported ("Structured model outputs")."""


def is_strict(schema: Any) -> bool:
    """Return whether all objects of a schema are closed, and require each of their properties.

    A property may have the name of a keyword: then the answer may be no where it could be yes.
    """
    if type(schema) is list:
        return all(map(is_strict, schema))
    if type(schema) is not dict:
        return True
    kind = schema.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        required = get_list(schema, "required")
        is_whole = all(name in required for name in get_object(schema, "properties"))
        if not is_whole or schema.get("additionalProperties") is not False:
            return False
    return _REFUSED.isdisjoint(schema) and all(map(is_strict, schema.values()))
