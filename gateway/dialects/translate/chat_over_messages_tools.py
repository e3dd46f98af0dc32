"""Tools and schemas of a chat request, for a messages provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gateway.base.money import WEB_SEARCH
from gateway.dialects.chat.writer import SEARCH_CHOICE, SEARCH_OPTIONS, read_location
from gateway.dialects.translate import pivot
from gateway.dialects.translate.chat_over_messages_conversation import CACHE_MARK
from gateway.dialects.translate.schemas import name_members
from gateway.dialects.wire.call_ids import shape_name
from gateway.dialects.wire.customs import make_function
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.records import Json

_FORMATS: Final = (
    *("date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "time", "uri", "uuid"),
)

_Takes = Mapping[str, Callable[[Any], bool]]
"""Whether the upstream takes the value of a keyword; it takes no other keywords."""


_OF_TOOLS: Final = frozenset(
    {"function_call", "functions", "parallel_tool_calls", "tool_choice", "tools", SEARCH_OPTIONS}
)
"""The fields that `translate_tools` reads."""
_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}


_SEARCH: Final[Json] = {"type": "web_search_20250305", "name": WEB_SEARCH}
"""The version of the search tool that all of the upstream's models accept."""
_SEARCH_FIELDS: Final = frozenset({"allowed_domains", "blocked_domains", "max_uses"})
_KNOWN_OF_SEARCH: Final = _SEARCH_FIELDS | {"search_context_size", "user_location"}
"""The upstream itself decides how much of its findings the model reads."""


def translate_tools(body: Field, called: Sequence[str]) -> Json:
    """Write `tools` and `tool_choice`. Raises BadRequest for tools that the caller does not run.

    Tools that were called earlier and are no longer offered are still declared, since the upstream
    refuses calls without tools; `none` prevents further calls.
    """
    if not called and _OF_TOOLS.isdisjoint(body.value):
        return {}
    tools = pivot.read_tools(body, _read_tool, _read_function)
    choice, search = pivot.find_choice(body), _read_search(body[SEARCH_OPTIONS])
    if tools or search:
        chosen: Json | None
        if search and choice.value == SEARCH_CHOICE:
            chosen = {"type": "tool", "name": WEB_SEARCH}
        else:
            chosen, tools = _read_choice(choice, tools)
        tools += search
        if pivot.read_parallel(body) is False and (chosen is None or chosen["type"] != "none"):
            chosen = {**(chosen or {"type": "auto"}), "disable_parallel_tool_use": True}
        return {"tools": tools, "tool_choice": chosen} if chosen else {"tools": tools}
    pivot.check_no_choice(choice)
    if not called:
        return {}
    empty = {"type": "object", "properties": {}}
    names = dict.fromkeys(map(shape_name, called))
    declared = [{"name": name, "input_schema": empty} for name in names]
    return {"tools": declared, "tool_choice": {"type": "none"}}


def _read_tool(tool: Field) -> Json:
    match tool.read_object().get("type", "function"):
        case "function":
            made = _read_function(tool["function"])
        case "custom":
            made = make_function(tool["custom"])
            made["input_schema"] = made.pop("parameters")
        case _:
            raise tool["type"].refuse("This model's provider takes functions and custom tools.")
    return pivot.copy_mark(CACHE_MARK, tool, made)


def _read_function(function: Field) -> Json:
    tool = pivot.read_function(function, "input_schema")
    tool["input_schema"] = name_members(tool["input_schema"])
    if function.get("strict") is True:
        tool |= {"input_schema": adapt_schema(tool["input_schema"]), "strict": True}
    return tool


def _read_search(options: Field) -> list[Json]:
    if options.value is None:
        return []
    options.check_fields(_KNOWN_OF_SEARCH, {})
    given = {name: value for name, value in options.value.items() if name in _SEARCH_FIELDS}
    return [{**_SEARCH, **given, **read_location(options)}]


def _read_choice(choice: Field, tools: list[Json]) -> tuple[Json | None, list[Json]]:
    match choice.value:
        case None:
            return None, tools
        case "auto" | "required" | "none" as word:
            return {"type": _CHOICES[word]}, tools
        case {"type": "function", "function": {"name": str(tool)}} | {
            "type": "custom",
            "custom": {"name": str(tool)},
        }:
            return {"type": "tool", "name": tool}, tools
        case {"name": str(tool)} if choice.name == "function_call":
            return {"type": "tool", "name": tool}, tools
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode}}:
            return {"type": _CHOICES[mode]}, _keep_allowed(choice["allowed_tools"]["tools"], tools)
        case _:
            raise choice.refuse(
                "This model's provider takes auto, required, none, the name of a function or of a "
                "custom tool, or allowed tools."
            )


def _keep_allowed(allowed: Field, tools: list[Json]) -> list[Json]:
    by_name = {tool["name"]: tool for tool in tools}
    wanted = set()
    for item in allowed.read_items():
        match item.value:
            case {"type": "function", "function": {"name": str(name)}} | {
                "type": "custom",
                "custom": {"name": str(name)},
            } if name in by_name:
                wanted.add(name)
            case _:
                raise item.refuse("It is none of `tools`.")
    if not wanted:
        raise allowed.refuse("At least one tool must be allowed.")
    return [tool for tool in tools if tool["name"] in wanted]


_DEFINITIONS: Final = ("$defs", "definitions")
_SCHEMAS: Final = (*_DEFINITIONS, "properties")
_UNIONS: Final = ("anyOf", "allOf")


def adapt_schema(schema: Any) -> Any:
    """Return a schema that the upstream accepts; values other than objects are returned unchanged."""
    if type(schema) is not dict:
        return schema
    if "$ref" in schema:  # nothing but definitions may stand beside it
        schema = {key: schema[key] for key in ("$ref", *_DEFINITIONS) if key in schema}
    elif "oneOf" in schema and "anyOf" not in schema:
        schema = {"anyOf" if key == "oneOf" else key: item for key, item in schema.items()}
    kinds, takes = _read_kinds(schema), dict(_TAKES)
    for kind in kinds:
        takes |= _TAKES_OF_KIND.get(kind, {})
    kept = {key for key, value in schema.items() if key in takes and takes[key](value)}
    made = {key: _adapt_inner(key, schema[key]) for key in schema if key in kept}
    left = {key: value for key, value in schema.items() if key not in kept}
    left.pop("type", None)
    if kinds and made.keys().isdisjoint(_UNIONS):
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
    """Describe in words what cannot be enforced, so that the model may still follow it."""
    said = "{" + ", ".join(f"{key}: {value}" for key, value in left.items()) + "}"
    return {"description": f"{description}\n\n{said}" if description is not None else said}


def _adapt_inner(key: str, value: Any) -> Any:
    """Adapt the schemas within a keyword's value, if it has any."""
    if key in _SCHEMAS:
        return {name: adapt_schema(schema) for name, schema in value.items()}
    if key in _UNIONS:
        return [adapt_schema(schema) for schema in value]
    return adapt_schema(value) if key == "items" else value


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_primitive(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | None)


def _is_enum(value: Any) -> bool:
    return isinstance(value, list) and value != [] and all(map(_is_primitive, value))


_TAKES: Final[_Takes] = {
    **dict.fromkeys(_DEFINITIONS, _is_object),
    **dict.fromkeys(_UNIONS, _is_list),
    **dict.fromkeys(("$ref", "description", "title"), lambda _: True),
    "enum": _is_enum,
    "const": _is_primitive,
}
_TAKES_OF_KIND: Final[Mapping[str, _Takes]] = {
    "object": {"properties": _is_object, "required": _is_list},
    "array": {"items": _is_object, "minItems": (0, 1).__contains__},
    "string": {"format": _FORMATS.__contains__},
}
