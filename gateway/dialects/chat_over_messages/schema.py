"""JSON schemas as a messages upstream takes them, adapted as Anthropic's own SDKs do.

Every object is closed, `oneOf` becomes `anyOf`, and what the upstream refuses (such as `minimum`) is
told in the description instead. A malformed schema is left to the upstream to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.dialects.records import Json

_FORMATS: Final = (
    *("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"),
)
_DEFINITIONS: Final = ("$defs", "definitions")
_PRIMITIVES: Final = (str, int, float, bool, type(None))


def adapt_schema(schema: Any) -> Any:
    if type(schema) is not dict:
        return schema
    if "$ref" in schema:  # nothing but definitions may stand beside it
        schema = {key: schema[key] for key in ("$ref", *_DEFINITIONS) if key in schema}
    elif "oneOf" in schema and "anyOf" not in schema:
        schema = {"anyOf" if key == "oneOf" else key: item for key, item in schema.items()}
    kinds, keywords = _read_kinds(schema), dict(_KEYWORDS)
    for kind in kinds:
        keywords |= _OF_KIND.get(kind, {})
    made: Json = {}
    left: Json = {}
    for key, value in schema.items():
        takes, adapt = keywords.get(key, _UNKNOWN)
        if takes(value):
            made[key] = adapt(value)
        else:
            left[key] = value
    left.pop("type", None)
    if kinds and made.keys().isdisjoint(("anyOf", "allOf")):
        made["type"] = schema.get("type", "object")
    if "object" in kinds:
        left.pop("additionalProperties", None)
        made = {"properties": {}, **made, "additionalProperties": False}
    return {**made, **_describe(left, made.get("description"))} if left else made


def _read_kinds(schema: Json) -> list[Any]:
    """Return the types of a schema; none for one of literals, which says more."""
    if _is_enum(schema.get("enum")) or ("const" in schema and _is_primitive(schema["const"])):
        return []
    kind = schema.get("type", "object" if "properties" in schema else None)
    kinds = kind if isinstance(kind, list) else [kind]
    return [one for one in kinds if isinstance(one, str)]


def _describe(left: Json, description: Any) -> Json:
    """Say in words what cannot be enforced, so that the model may follow it all the same."""
    said = "{" + ", ".join(f"{key}: {value}" for key, value in left.items()) + "}"
    return {"description": f"{description}\n\n{said}" if description is not None else said}


def _adapt_values(schemas: Json) -> Json:
    return {name: adapt_schema(schema) for name, schema in schemas.items()}


def _adapt_items(schemas: list[Any]) -> list[Any]:
    return [adapt_schema(schema) for schema in schemas]


def _keep(value: Any) -> Any:
    return value


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_primitive(value: Any) -> bool:
    return isinstance(value, _PRIMITIVES)


def _is_enum(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(map(_is_primitive, value))


_Keyword = tuple[Callable[[Any], bool], Callable[[Any], Any]]
"""Whether the upstream takes a value, and what is made of it."""
_Keywords = Mapping[str, _Keyword]
_UNKNOWN: Final[_Keyword] = (lambda _: False, _keep)
_KEYWORDS: Final[_Keywords] = {
    **dict.fromkeys(_DEFINITIONS, (_is_object, _adapt_values)),
    **dict.fromkeys(("anyOf", "allOf"), (_is_list, _adapt_items)),
    **dict.fromkeys(("$ref", "description", "title"), (lambda _: True, _keep)),
    "enum": (_is_enum, _keep),
    "const": (_is_primitive, _keep),
}
_OF_KIND: Final[Mapping[str, _Keywords]] = {
    "object": {"properties": (_is_object, _adapt_values), "required": (_is_list, _keep)},
    "array": {
        "items": (_is_object, adapt_schema),
        "minItems": ((0, 1).__contains__, _keep),
    },
    "string": {"format": (_FORMATS.__contains__, _keep)},
}
