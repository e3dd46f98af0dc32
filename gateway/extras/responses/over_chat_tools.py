"""Responses tools as chat functions: the tools, the choice among them, and their names in replies.

A custom tool, which takes free text, becomes a function with one string argument. Tools of a namespace get
its name as a prefix. Hosted tools, which a vendor's servers run, are left out, since coding agents always
declare them. Only web search is carried over, if the model has a price for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gateway.dialects.chat.writer import SEARCH_CHOICE, add_search, is_search, make_search
from gateway.dialects.translate.pivot import read_parallel
from gateway.dialects.wire.call_ids import shorten_name
from gateway.dialects.wire.customs import make_function
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.records import Json, Target
from gateway.extras.tool_schemas.roots import shape_root

_KINDS: Final = ("function", "custom")
_WORDS: Final = ("auto", "none", "required")


@dataclass(frozen=True, slots=True)
class ToolName:
    """A tool as its caller knows it."""

    name: str
    namespace: str = ""
    """Empty for a tool without a namespace."""
    is_custom: bool = False


def translate_tools(body: Field, target: Target) -> Json:
    """Write `tools`, and with them `tool_choice` and `parallel_tool_calls`."""
    choice = body["tool_choice"]
    tools, search = [*_read_tools(body).values()], _maybe_search(body, target)
    if isinstance(choice.value, dict) and choice.get("type") == "allowed_tools":
        allowed, choice = choice["tools"], choice["mode"]
        tools = _keep_allowed(allowed, tools)
        if not any(is_search(one, target) for one in allowed.read_items()):
            search = None
    if not tools and search is None:
        if choice.value not in (None, "auto", "none"):
            raise choice.refuse("No tool is left that this model's provider can be told to call.")
        return {}
    made: Json = {}
    if tools:
        made["tools"] = [_translate_tool(namespace, tool) for namespace, tool in tools]
        if (parallel := read_parallel(body)) is not None:
            made["parallel_tool_calls"] = parallel
    if choice.value is not None:
        can_search = search is not None and is_search(choice, target)
        made["tool_choice"] = SEARCH_CHOICE if can_search else _translate_choice(choice)
    return add_search(made, search, target)


def read_tool_names(body: Json) -> dict[str, ToolName]:
    """Return the caller's tools of a translated request, by the names of their functions."""
    return {
        name: ToolName(tool["name"].read_text(), namespace, is_custom=tool.get("type") == "custom")
        for name, (namespace, tool) in _read_tools(Field(body)).items()
    }


def flatten_name(namespace: str, name: str) -> str:
    """Return the name of a tool's function. It depends on the tool alone, and is never too long."""
    return shorten_name(f"{namespace}__{name}" if namespace else name)


def read_flat_name(call: Field) -> str:
    """Return the function's name for a call or a choice, which has separate name and namespace."""
    namespace, name = call["namespace"], call["name"]
    called = "" if name.value == "" else name.read_text()  # some models leave it out
    return flatten_name(namespace.read_string() if namespace.value else "", called)


def _read_tools(body: Field) -> dict[str, tuple[str, Field]]:
    """Return the tools by the names of their functions, which providers want to be unique.

    Codex declares some tools twice, in the request and in an item: the first declaration counts.
    """
    tools: dict[str, tuple[str, Field]] = {}
    for namespace, tool in _iter_tools(body):
        tools.setdefault(_flatten(namespace, tool), (namespace, tool))
    return tools


def _iter_tools(body: Field) -> Iterator[tuple[str, Field]]:
    """Yield the tools that the caller runs itself, each with its namespace."""
    for declared in _iter_lists(body):
        for tool in declared.read_items():
            kind: object = tool.get("type")
            if kind in _KINDS:
                yield "", tool
            elif kind == "namespace":
                namespace = tool["name"].read_text()
                inner = tool["tools"].read_items()
                yield from ((namespace, one) for one in inner if one.get("type") in _KINDS)


def _iter_lists(body: Field) -> Iterator[Field]:
    """Yield the lists of tools: the request's, and those of items `additional_tools`."""
    if body.get("tools") is not None:
        yield body["tools"]
    if isinstance(body.get("input"), list):
        for item in body["input"].read_items():
            if isinstance(item.value, dict) and item.get("type") == "additional_tools":
                yield item["tools"]


def _flatten(namespace: str, tool: Field) -> str:
    return flatten_name(namespace, tool["name"].read_text())


def _translate_tool(namespace: str, tool: Field) -> Json:
    name = _flatten(namespace, tool)
    if tool.get("type") == "custom":
        return {"type": "function", "function": {**make_function(tool), "name": name}}
    function: Json = {"name": name}
    if tool.get("description"):
        function["description"] = tool["description"].read_string()
    given = tool["parameters"]
    parameters = None if given.value is None else shape_root(given.read_object())
    if isinstance(strict := tool.get("strict"), bool):  # no root that had to be shaped is strict
        function["strict"] = strict and parameters is given.value
    if parameters is not None:
        function["parameters"] = parameters
    return {"type": "function", "function": function}


def _keep_allowed(allowed: Field, tools: list[tuple[str, Field]]) -> list[tuple[str, Field]]:
    """Keep only the tools that may be called, as few chat upstreams support such a choice."""
    wanted = {read_flat_name(one) for one in allowed.read_items() if one.get("type") in _KINDS}
    return [(namespace, tool) for namespace, tool in tools if _flatten(namespace, tool) in wanted]


def _maybe_search(body: Field, target: Target) -> Json | None:
    """Write the options of a search; None if there is none, or only a search in a cache."""
    for declared in _iter_lists(body):
        for tool in declared.read_items():
            if is_search(tool, target) and tool.get("external_web_access") is not False:
                filters = tool["filters"]
                return make_search(tool, tool if filters.value is None else filters, target)
    return None


def _translate_choice(choice: Field) -> object:
    """Write which tool is called. Raises BadRequest for a hosted tool, which is left out."""
    if choice.value in _WORDS:
        return choice.value
    if not isinstance(choice.value, dict):
        raise choice.refuse("It must be 'auto', 'none', 'required' or a tool.")
    if choice.get("type") not in _KINDS:
        raise choice["type"].refuse("This model's provider cannot be told to call such a tool.")
    return {"type": "function", "function": {"name": read_flat_name(choice)}}
