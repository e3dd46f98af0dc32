"""Tools of a messages request, for a chat provider."""

from __future__ import annotations

from typing import Any, Final

from gateway.base.money import WEB_SEARCH
from gateway.dialects.chat import writer
from gateway.dialects.messages.caller import MessagesField
from gateway.dialects.translate.schemas import shape_root
from gateway.dialects.wire.jsonbytes import get_list, get_object
from gateway.dialects.wire.records import Json, Target

CARRIED: Final = frozenset(
    {"allowed_callers", "description", "input_schema", "name", "strict", "type"}
)

DROPPED: Final = frozenset(
    {"cache_control", "defer_loading", "eager_input_streaming", "input_examples"}
)
"""Advice to the upstream. A tool whose loading may be deferred is sent at once."""


MAX_TOOL_NAME_CHARS: Final = 64
"""Characters of a tool's name: OpenAI's own limit; the messages dialect allows 128."""


_CHOICE_FIELDS: Final = frozenset({"type", "name", "disable_parallel_tool_use"})
_CHOICES: Final = {"auto": "auto", "any": "required", "none": "none"}
_KNOWN: Final = CARRIED | DROPPED
_KNOWN_OF_SEARCH: Final = DROPPED | {
    *("allowed_callers", "allowed_domains", "blocked_domains", "max_uses", "name"),
    *("response_inclusion", "strict", "type", "user_location"),
}
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


def translate_tools(body: MessagesField, target: Target) -> Json:
    """Write function tools, a search that has a price, and which of them may be called.

    Raises BadRequest for other tools that the vendor's own servers run.
    """
    given = [] if body.get("tools") is None else body["tools"].read_items()
    searches = [tool for tool in given if writer.is_search(tool, target)]
    tools = [_translate_tool(tool) for tool in given if tool not in searches]
    made: Json = {"tools": tools} if tools else {}
    choice = body["tool_choice"]
    if choice.value is not None:
        made |= _translate_choice(choice, tools, searches)
    options = None
    if searches:
        searches[0].check_known(_KNOWN_OF_SEARCH)
        _check_callers(searches[0]["allowed_callers"])
        options = writer.make_search(searches[0], searches[0], target)
    return writer.add_search(made, options, target)


def _translate_choice(choice: MessagesField, tools: list[Json], searches: list[Any]) -> Json:
    """Write `tool_choice` and `parallel_tool_calls`, which a chat upstream refuses without tools."""
    choice.check_known(_CHOICE_FIELDS)
    kind = choice.get("type")
    fields: Json
    if kind == "tool" and searches and choice.get("name") == WEB_SEARCH:
        fields = {"tool_choice": writer.SEARCH_CHOICE}
    elif kind == "tool":
        name = read_tool_name(choice["name"])
        fields = {"tool_choice": {"type": "function", "function": {"name": name}}}
    elif isinstance(kind, str) and kind in _CHOICES:
        fields = {"tool_choice": _CHOICES[kind]}
    else:
        raise choice["type"].refuse("must be 'auto', 'any', 'tool' or 'none'.")
    if not tools and not searches:
        if kind in {"any", "tool"}:
            raise choice.refuse(f"'{kind}' needs tools.")
        return {}
    if tools and kind != "none" and choice.get("disable_parallel_tool_use") is True:
        fields["parallel_tool_calls"] = False
    return fields


def read_tool_name(name: MessagesField) -> str:
    if len(name.read_string()) > MAX_TOOL_NAME_CHARS:
        raise name.refuse(
            f"this model's provider takes names of at most {MAX_TOOL_NAME_CHARS} characters."
        )
    return name.read_string()


def _translate_tool(tool: MessagesField) -> Json:
    kind = tool.get("type")
    if kind not in (None, "custom"):
        raise tool["type"].refuse_type("a tool", kind)
    tool.check_known(_KNOWN)
    _check_callers(tool["allowed_callers"])
    function: Json = {"name": read_tool_name(tool["name"])}
    if (description := tool["description"]).value is not None:
        function["description"] = description.read_string()
    function["parameters"] = shape_root(tool["input_schema"].read_object())
    if (strict := tool.get("strict")) is not None:
        function["strict"] = strict is True and is_strict(function["parameters"])
    return {"type": "function", "function": function, **tool.mark}


def _check_callers(callers: MessagesField) -> None:
    if callers.value is not None and "direct" not in [one.value for one in callers.read_items()]:
        raise callers.refuse_field("a tool that only other tools may call")


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
