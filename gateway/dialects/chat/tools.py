"""Tools of chat callers that not every chat or messages provider takes.

Editors (Cursor) declare some tools flat, as the Responses API does. They get chat's inner object. Custom
tools become functions for messages providers. Their calls reach the caller as calls of custom tools.
"""

from __future__ import annotations

from operator import is_not
from typing import Final, Literal

from gateway.dialects.wire.jsonbytes import get_list, get_object
from gateway.dialects.wire.records import Json

ToolKind = Literal["function", "custom"]
ARGUMENTS: Final[dict[ToolKind, str]] = {"function": "arguments", "custom": "input"}
"""The key of a call's text by the type of its tool, which is also the key of the tool."""
_KINDS: Final = (*ARGUMENTS,)
_BESIDE: Final = ("type", "cache_control")
"""Members of a tool that stand beside its object."""


def is_flat(tool: object) -> bool:
    """Return whether a tool, or a choice of one, has its name outside, without chat's inner object."""
    if type(tool) is not dict:
        return False
    kind = tool.get("type")
    return kind in _KINDS and kind not in tool and type(tool.get("name")) is str


def name_customs(body: Json) -> frozenset[str]:
    """Return the names of custom tools in a request."""
    named = (
        (get_object(tool, "custom") or tool).get("name")
        for tool in get_list(body, "tools")
        if type(tool) is dict and tool.get("type") == "custom"
    )
    return frozenset(name for name in named if type(name) is str)


def nest_tools(body: Json) -> Json:
    """Return a request whose tools, and their choice, have chat's form; the same object if they had it."""
    tools, choice = get_list(body, "tools"), body.get("tool_choice")
    edits: Json = {}
    if any(map(is_flat, tools)):
        edits["tools"] = [_nest(tool) for tool in tools]
    if type(choice) is dict and (nested := _nest_choice(choice)) is not choice:
        edits["tool_choice"] = nested
    return {**body, **edits} if edits else body


def _nest(tool: Json) -> Json:
    if not is_flat(tool):
        return tool
    kind, beside = tool["type"], {name: tool[name] for name in _BESIDE if name in tool}
    held = {name: tool[name] for name in tool if name not in beside}
    match held.get("format"):
        case {"type": "grammar", "definition": definition, **rest}:
            grammar = {**rest, "definition": definition}
            held["format"] = {"type": "grammar", "grammar": grammar}
        case _:
            pass
    return {**beside, kind: held}


def _nest_choice(choice: Json) -> Json:
    if choice.get("type") != "allowed_tools":
        return _nest(choice)
    is_outside = "allowed_tools" not in choice
    allowed = choice if is_outside else get_object(choice, "allowed_tools")
    tools = get_list(allowed, "tools")
    if not (tools and (is_outside or any(map(is_flat, tools)))):
        return choice
    allowed = {name: allowed[name] for name in allowed if name != "type"}
    return {"type": "allowed_tools", "allowed_tools": {**allowed, "tools": [*map(_nest, tools)]}}


def write_tools(body: Json) -> Json:
    """Return a request whose tools a chat provider takes; the same object if nothing has to change."""
    nested = nest_tools(body)
    given = get_list(nested, "tools")
    kept = [*map(_drop_null, given)]
    return {**nested, "tools": kept} if any(map(is_not, kept, given)) else nested


def _drop_null(tool: Json) -> Json:
    """Leave out a `strict` of null, which is no boolean to SGLang and LM Studio."""
    match tool:
        case {"function": {"strict": None, **held}}:
            return {**tool, "function": held}
        case _:
            return tool
