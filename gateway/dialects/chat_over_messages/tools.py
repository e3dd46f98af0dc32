"""Chat tools and functions as messages tools, and which of them may be called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.dialects.chat.parts import SEARCH_CHOICE, SEARCH_OPTIONS, read_location
from gateway.dialects.chat.writer import uses_functions
from gateway.dialects.chat_over_messages.content import copy_cache_mark
from gateway.dialects.chat_over_messages.schema import adapt_schema
from gateway.dialects.records import Json
from gateway.dialects.wire.fields import Field
from gateway.money import WEB_SEARCH

_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
_FORCING: Final = frozenset({"any", "tool"})
_NO_CHOICE: Final = (None, "auto", "none")
_FIELDS: Final = frozenset({"tools", "functions", "tool_choice", "function_call", SEARCH_OPTIONS})

_SEARCH: Final[Json] = {"type": "web_search_20250305", "name": WEB_SEARCH}
"""The version of the tool that all of the upstream's models take."""
_SEARCH_FIELDS: Final = frozenset({"allowed_domains", "blocked_domains", "max_uses"})
_KNOWN_OF_SEARCH: Final = _SEARCH_FIELDS | {"search_context_size", "user_location"}
"""The upstream decides itself how much of what it found the model reads."""


def translate_tools(body: Field, called: Sequence[str]) -> Json:
    """Write `tools` and `tool_choice`. Raises BadRequest for tools that are no functions.

    Tools that were called earlier and are offered no more are still declared, since the upstream
    refuses a conversation with calls and no tools; `none` keeps them from being called.
    """
    if not called and _FIELDS.isdisjoint(body.value):
        return {}
    tools = [_read_tool(tool) for tool in _read_items(body["tools"])]
    tools += (_read_function(function) for function in _read_items(body["functions"]))
    choice = body["tool_choice"]
    if choice.value is None:
        choice = body["function_call"]
    search = _read_search(body[SEARCH_OPTIONS])
    if tools or search:
        if search and choice.value == SEARCH_CHOICE:
            chosen: Json | None = {"type": "tool", "name": WEB_SEARCH}
        else:
            chosen, tools = _read_choice(choice, tools)
        tools += search
        chosen = _limit_calls(body, chosen)
        return {"tools": tools, "tool_choice": chosen} if chosen else {"tools": tools}
    if choice.value not in _NO_CHOICE:
        raise choice.refuse("There are no tools in the request to choose from.")
    if not called:
        return {}
    declared = [{"name": tool, "input_schema": _make_schema(None)} for tool in called]
    return {"tools": declared, "tool_choice": {"type": "none"}}


def is_forced(made: Json) -> bool:
    """Return whether the upstream's request leaves the model no reply but a call."""
    return made.get("tool_choice", {}).get("type") in _FORCING


def _read_items(field: Field) -> list[Field]:
    return field.read_items() if field.value else []


def _read_tool(tool: Field) -> Json:
    if tool.read_object().get("type", "function") != "function":
        raise tool["type"].refuse("This model's provider takes functions alone.")
    return copy_cache_mark(tool, _read_function(tool["function"]))


def _read_function(function: Field) -> Json:
    tool: Json = {"name": function["name"].read_text()}
    if (description := function.get("description")) is not None:
        tool["description"] = description
    parameters = function["parameters"]
    tool["input_schema"] = _make_schema(
        None if parameters.value is None else parameters.read_object()
    )
    if function.get("strict") is True:
        tool |= {"input_schema": adapt_schema(tool["input_schema"]), "strict": True}
    return tool


def _read_search(options: Field) -> list[Json]:
    if options.value is None:
        return []
    options.check_fields(_KNOWN_OF_SEARCH, {})
    given = {name: value for name, value in options.value.items() if name in _SEARCH_FIELDS}
    return [{**_SEARCH, **given, **read_location(options)}]


def _make_schema(parameters: Json | None) -> Json:
    """Write a schema with `type`, as the upstream insists; no parameters are an empty object."""
    if not parameters:
        return {"type": "object", "properties": {}}
    return parameters if "type" in parameters else {"type": "object", **parameters}


def _read_choice(choice: Field, tools: list[Json]) -> tuple[Json | None, list[Json]]:
    match choice.value:
        case None:
            return None, tools
        case "auto" | "required" | "none" as word:
            return {"type": _CHOICES[word]}, tools
        case {"type": "function", "function": {"name": str(tool)}}:
            return {"type": "tool", "name": tool}, tools
        case {"name": str(tool)} if choice.name == "function_call":
            return {"type": "tool", "name": tool}, tools
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode}}:
            return {"type": _CHOICES[mode]}, _keep_allowed(choice["allowed_tools"]["tools"], tools)
        case _:
            raise choice.refuse(
                "This model's provider takes auto, required, none, the name of a function, or "
                "allowed functions."
            )


def _keep_allowed(allowed: Field, tools: list[Json]) -> list[Json]:
    by_name = {tool["name"]: tool for tool in tools}
    wanted = set()
    for item in allowed.read_items():
        match item.value:
            case {"type": "function", "function": {"name": str(name)}} if name in by_name:
                wanted.add(name)
            case _:
                raise item.refuse("It is no function among `tools`.")
    if not wanted:
        raise allowed.refuse("At least one tool must be allowed.")
    return [tool for tool in tools if tool["name"] in wanted]


def _limit_calls(body: Field, choice: Json | None) -> Json | None:
    """Write `parallel_tool_calls: false` into the choice; functions were called one at a time."""
    parallel: Any = body.get("parallel_tool_calls")
    if parallel is not None and not isinstance(parallel, bool):
        raise body["parallel_tool_calls"].wrong_type("a boolean")
    if parallel is not False and not uses_functions(body.value):
        return choice
    choice = choice or {"type": "auto"}
    return choice if choice["type"] == "none" else {**choice, "disable_parallel_tool_use": True}
