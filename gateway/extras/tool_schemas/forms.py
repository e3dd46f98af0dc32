"""Schemas of structured output and of tools, in the forms that vendors take.

For Anthropic they are adapted as its own SDKs do: every object is closed, `oneOf` becomes `anyOf`, and keywords
that it refuses (such as `minimum`) move to the description. Malformed schemas are passed on, for Anthropic to
refuse. For OpenAI a schema is marked strict only if its strict mode takes it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, get_object
from gateway.dialects.wire.records import Json

_FORMATS: Final = (
    *("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"),
)
_Takes = Mapping[str, Callable[[Any], bool]]
"""For each keyword that Anthropic takes: a test whether it takes the value."""
DEFINITIONS: Final = ("$defs", "definitions")
_NAMED: Final = (*DEFINITIONS, "properties")
"""Keywords whose members are schemas."""
_TAKEN_UNIONS: Final = ("anyOf", "allOf")


def adapt_schema(schema: object) -> object:
    """Return a schema that Anthropic accepts; values other than objects are returned unchanged."""
    if type(schema) is not dict:
        return schema
    if "$ref" in schema:  # nothing but definitions may stand beside it
        schema = {key: schema[key] for key in ("$ref", *DEFINITIONS) if key in schema}
    elif "oneOf" in schema and "anyOf" not in schema:
        schema = {"anyOf" if key == "oneOf" else key: item for key, item in schema.items()}
    kinds, takes = _read_kinds(schema), dict(_TAKES)
    for kind in kinds:
        takes |= _TAKES_OF_KIND.get(kind, {})
    kept = {key for key, value in schema.items() if key in takes and takes[key](value)}
    made = {key: _adapt_inner(key, schema[key]) for key in schema if key in kept}
    left = {key: value for key, value in schema.items() if key not in kept}
    left.pop("type", None)
    if kinds and made.keys().isdisjoint(_TAKEN_UNIONS):
        made["type"] = schema.get("type", "object")
    if "object" in kinds:
        left.pop("additionalProperties", None)
        made = {"properties": {}, **made, "additionalProperties": False}
    return {**made, **_say_in_words(left, made.get("description"))} if left else made


def _read_kinds(schema: Json) -> list[Any]:
    """Return the types of a schema; none if it lists literals, which already restrict more."""
    if _is_enum(schema.get("enum")) or ("const" in schema and _is_primitive(schema["const"])):
        return []
    kind = schema.get("type", "object" if "properties" in schema else None)
    kinds = kind if isinstance(kind, list) else [kind]
    return [one for one in kinds if isinstance(one, str)]


def _say_in_words(left: Json, description: object) -> Json:
    """Describe in words what cannot be enforced, so that the model may still follow it."""
    words = "{" + ", ".join(f"{key}: {value}" for key, value in left.items()) + "}"
    return {"description": f"{description}\n\n{words}" if description is not None else words}


def _adapt_inner(key: str, value: Any) -> Any:
    """Adapt the schemas within a keyword's value, if it has any."""
    if key in _NAMED:
        return {name: adapt_schema(schema) for name, schema in value.items()}
    if key in _TAKEN_UNIONS:
        return [adapt_schema(schema) for schema in value]
    return adapt_schema(value) if key == "items" else value


def _is_object(value: object) -> bool:
    return isinstance(value, dict)


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_primitive(value: object) -> bool:
    return isinstance(value, str | int | float | bool | None)


def _is_enum(value: object) -> bool:
    return isinstance(value, list) and value != [] and all(map(_is_primitive, value))


_TAKES: Final[_Takes] = {
    **dict.fromkeys(DEFINITIONS, _is_object),
    **dict.fromkeys(_TAKEN_UNIONS, _is_list),
    **dict.fromkeys(("$ref", "description", "title"), lambda _: True),
    "enum": _is_enum,
    "const": _is_primitive,
}
_TAKES_OF_KIND: Final[Mapping[str, _Takes]] = {
    "object": {"properties": _is_object, "required": _is_list},
    "array": {"items": _is_object, "minItems": (0, 1).__contains__},
    "string": {"format": _FORMATS.__contains__},
}


_NEVER_STRICT: Final = frozenset(
    {
        *("allOf", "dependentRequired", "dependentSchemas", "else", "if", "not", "oneOf", "then"),
        *("maxProperties", "minProperties", "patternProperties", "propertyNames"),
        *("contains", "prefixItems", "unevaluatedItems", "unevaluatedProperties", "uniqueItems"),
    }
)
"""Keywords that OpenAI names as not supported ("Structured model outputs"), now or for a time."""
_SAYS_KIND: Final = frozenset({"type", "anyOf", "$ref", "enum", "const"})


def is_strict(schema: object) -> bool:
    """Return whether each schema in this one says its kind, and each object is closed and whole.

    The result may be False for a schema that OpenAI would take. Then it is sent without being strict.
    """
    if type(schema) is not dict or _SAYS_KIND.isdisjoint(schema):
        return False
    kind, properties = schema.get("type"), get_object(schema, "properties")
    if kind == "object" or (isinstance(kind, list) and "object" in kind) or properties:
        is_whole = properties.keys() <= set(map(str, get_list(schema, "required")))
        if not is_whole or schema.get("additionalProperties") is not False:
            return False
    inner = [one for key in _NAMED for one in get_object(schema, key).values()]
    inner += get_list(schema, "anyOf")
    if "items" in schema:
        inner.append(schema["items"])
    return _NEVER_STRICT.isdisjoint(schema) and all(map(is_strict, inner))


_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""A member's name that Anthropic takes."""


def name_members(schema: Json) -> Json:
    """Return a schema all of whose members have names that Anthropic takes.

    Members with other names are only described: a tool that is not strict may get members beyond its schema.
    """
    properties = get_object(schema, "properties")
    odd = [name for name in properties if not _NAME.fullmatch(name)]
    if not odd:
        return schema
    kept = {name: one for name, one in properties.items() if name not in odd}
    made = {**schema, "properties": kept}
    made.pop("additionalProperties", None)
    if "required" in schema:
        made["required"] = [name for name in get_list(schema, "required") if name not in odd]
    told = dumps_lenient({name: properties[name] for name in odd}).decode()
    needed = [name for name in get_list(schema, "required") if name in odd]
    also = f" Needed are: {dumps_lenient(needed).decode()}." if needed else ""
    add_description(made, f"It has these members, too: {told}.{also}")
    return made


def add_description(made: Json, told: str) -> None:
    given = made.get("description")
    made["description"] = f"{given}\n\n{told}" if isinstance(given, str) and given else told
