"""Chat tools and functions as messages tools, and which of them may be called (wire.md §5.1). No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gateway.dialects.checks import Json, wrong_type
from gateway.dialects.to_messages_checks import (
    expect_list,
    expect_object,
    expect_text,
    unsupported_value,
)
from gateway.dialects.to_messages_parts import copy_cache_mark

_CHOICES: Final = {"auto": "auto", "required": "any", "none": "none"}
_NO_CHOICE: Final = (None, "auto", "none")


def uses_functions(body: Json) -> bool:
    """Whether the caller speaks of functions, as chat did before tools, and expects such a reply."""
    return bool(body.get("functions")) and not body.get("tools")


def to_tools(body: Json, called: Sequence[str]) -> Json:
    """The fields `tools` and `tool_choice`. Raises BadRequest for tools that are no functions.

    Tools that were called earlier and are offered no more are still declared, since the upstream
    refuses a conversation with calls and no tools; `none` keeps them from being called.
    """
    tools = [*_read_tools(body), *_read_functions(body)]
    name = "tool_choice" if body.get("tool_choice") is not None else "function_call"
    choice = body.get(name)
    if tools:
        chosen, tools = _read_choice(name, choice, tools)
        chosen = _limit_calls(body, chosen)
        return {"tools": tools, "tool_choice": chosen} if chosen else {"tools": tools}
    if choice not in _NO_CHOICE:
        raise unsupported_value(name, "There are no tools in the request to choose from.")
    if not called:
        return {}
    declared = [{"name": tool, "input_schema": _make_schema(None)} for tool in called]
    return {"tools": declared, "tool_choice": {"type": "none"}}


def _read_tools(body: Json) -> list[Json]:
    tools = []
    for index, item in enumerate(expect_list("tools", body.get("tools") or [])):
        where = f"tools[{index}]"
        tool = expect_object(where, item)
        if tool.get("type", "function") != "function":
            raise unsupported_value(f"{where}.type", "This model's provider takes functions alone.")
        made = _read_function(f"{where}.function", tool.get("function"))
        tools.append(copy_cache_mark(tool, made))
    return tools


def _read_functions(body: Json) -> list[Json]:
    functions = expect_list("functions", body.get("functions") or [])
    return [_read_function(f"functions[{index}]", item) for index, item in enumerate(functions)]


def _read_function(where: str, item: Any) -> Json:
    function = expect_object(where, item)
    tool: Json = {"name": expect_text(f"{where}.name", function.get("name"))}
    if (description := function.get("description")) is not None:
        tool["description"] = description
    parameters = function.get("parameters")
    if parameters is not None:
        expect_object(f"{where}.parameters", parameters)
    tool["input_schema"] = _make_schema(parameters)
    if function.get("strict") is True:
        tool["strict"] = True
    return tool


def _make_schema(parameters: Json | None) -> Json:
    """The upstream insists on `type`; no parameters are an object without properties."""
    if not parameters:
        return {"type": "object", "properties": {}}
    return parameters if "type" in parameters else {"type": "object", **parameters}


def _read_choice(name: str, choice: Any, tools: list[Json]) -> tuple[Json | None, list[Json]]:
    match choice:
        case None:
            return None, tools
        case "auto" | "required" | "none":
            return {"type": _CHOICES[choice]}, tools
        case {"type": "function", "function": {"name": str(tool)}}:
            return {"type": "tool", "name": tool}, tools
        case {"name": str(tool)} if name == "function_call":
            return {"type": "tool", "name": tool}, tools
        case {"type": "allowed_tools", "allowed_tools": {"mode": "auto" | "required" as mode}}:
            allowed = choice["allowed_tools"].get("tools")
            return {"type": _CHOICES[mode]}, _keep_allowed(allowed, tools)
        case _:
            raise unsupported_value(
                name,
                "This model's provider takes auto, required, none, the name of a function, or "
                "allowed functions.",
            )


def _keep_allowed(allowed: Any, tools: list[Json]) -> list[Json]:
    where = "tool_choice.allowed_tools.tools"
    by_name = {tool["name"]: tool for tool in tools}
    wanted = set()
    for index, item in enumerate(expect_list(where, allowed)):
        match item:
            case {"type": "function", "function": {"name": str(name)}} if name in by_name:
                wanted.add(name)
            case _:
                raise unsupported_value(f"{where}[{index}]", "It is no function among `tools`.")
    if not wanted:
        raise unsupported_value(where, "At least one tool must be allowed.")
    return [tool for tool in tools if tool["name"] in wanted]


def _limit_calls(body: Json, choice: Json | None) -> Json | None:
    """`parallel_tool_calls: false` is said beside the choice; functions were called one at a time."""
    parallel = body.get("parallel_tool_calls")
    if parallel is not None and not isinstance(parallel, bool):
        raise wrong_type("parallel_tool_calls", "a boolean", parallel)
    if parallel is not False and not uses_functions(body):
        return choice
    choice = choice or {"type": "auto"}
    return choice if choice["type"] == "none" else {**choice, "disable_parallel_tool_use": True}
