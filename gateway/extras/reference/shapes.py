"""JSON Schema of one value, of several values in the same place, and of the values that a check accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import reduce
from typing import Final

from gateway.base.errors import BadRequest
from gateway.dialects.wire.fields import Check
from gateway.dialects.wire.records import Json

KINDS: Final = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
FORMATS: Final = {
    "date-time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
    "date": re.compile(r"\d{4}-\d\d-\d\d"),
}
_WORD: Final = re.compile(r"[a-z][a-z0-9_]*|7d|30d")
"""Names of members. An object with other names is a map, whose names are data such as models."""
_MAPS: Final = frozenset({"headers", "kinds", "outcomes", "tool_calls", "tools"})
"""Maps whose names may look like those of members."""
_SAMPLES: Final = ("a", True, 1, 0.5, ["a"], [{"role": "user", "content": "a"}], {"type": "a"})


def describe(value: object, name: str = "") -> Json:
    """Describe a value, which stands under a name."""
    schema: Json = {"type": KINDS[type(value)]}
    match value:
        case str():
            fits = (one for one, pattern in FORMATS.items() if pattern.fullmatch(value))
            if found := next(fits, None):
                schema["format"] = found
        case list():
            schema["items"] = merge(describe(one) for one in value)
        case dict() if name in _MAPS or not all(map(_WORD.fullmatch, value)):
            schema["additionalProperties"] = merge(map(describe, value.values()))
        case dict():
            schema["properties"] = {key: describe(one, key) for key, one in value.items()}
            schema["required"] = sorted(value)
        case _:
            pass
    return schema


def merge(schemas: Iterable[Json]) -> Json:
    """Return a schema of all values that fit one of the schemas; {}, for nothing known, if there is none."""
    return reduce(_merge, schemas, {})


def _merge(one: Json, other: Json) -> Json:
    if not one or not other:
        return one or other
    kinds = {*list_kinds(one), *list_kinds(other)}
    if "number" in kinds:
        kinds -= {"integer"}
    merged: Json = {"type": kinds.pop() if len(kinds) == 1 else sorted(kinds)}
    texts = [schema for schema in (one, other) if "string" in list_kinds(schema)]
    formats = {schema.get("format") for schema in texts}
    if len(formats) == 1 and (found := formats.pop()):
        merged["format"] = found
    for inner in ("items", "additionalProperties"):
        if held := [schema[inner] for schema in (one, other) if inner in schema]:
            merged[inner] = merge(held)
    objects = [schema for schema in (one, other) if "properties" in schema]
    if objects and "additionalProperties" in merged:  # an empty map looked like an object
        rest = [each for schema in objects for each in schema["properties"].values()]
        merged["additionalProperties"] = merge([merged["additionalProperties"], *rest])
    elif objects:
        names = dict.fromkeys(name for schema in objects for name in schema["properties"])
        merged["properties"] = {
            name: merge(schema["properties"].get(name, {}) for schema in objects) for name in names
        }
        required = set.intersection(*({*schema["required"]} for schema in objects))
        merged["required"] = sorted(required)
    return merged


def list_kinds(schema: Json) -> list[str]:
    kind = schema.get("type", [])
    return kind if isinstance(kind, list) else [kind]


def probe(check: Check) -> Json:
    """Describe what a check of a field accepts; {} for anything."""
    kinds = {KINDS[type(one)] for one in _SAMPLES if _accepts(check, one)}
    if not kinds or len(kinds) == len({KINDS[type(one)] for one in _SAMPLES}):
        return {}
    if "number" in kinds:
        kinds -= {"integer"}
    schema: Json = {"type": kinds.pop() if len(kinds) == 1 else sorted(kinds)}
    return {**schema, "items": {}} if "array" in list_kinds(schema) else schema


def _accepts(check: Check, value: object) -> bool:
    try:
        check("it", value)
    except BadRequest:
        return False
    return True
