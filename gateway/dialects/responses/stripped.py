"""Tools without a price, left out of requests to a Responses upstream.

They are refused only where the caller forces one: agents such as Codex declare them in every request.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.records import Json, Target
from gateway.dialects.wire.billed import ANY_TOOL, is_open, list_families, refuse
from gateway.dialects.wire.jsonbytes import get_list
from gateway.errors import BadRequest


def strip_tools(body: Json, target: Target) -> Json:
    """Leave out the tools that the provider would run itself and that have no price, and what asks for them."""
    if ANY_TOOL in target.allow:
        return body
    edited, items = dict(body), body.get("input")
    if isinstance(items, list) and any(map(_declares, items)):
        edited["input"] = [
            {**item, "tools": _pick(item["tools"], target)} if _declares(item) else item
            for item in items
        ]
    tools = get_list(body, "tools")
    if not tools:
        return edited
    edited["tools"] = kept = _pick(tools, target)
    if not kept:
        edited.pop("tools")
        if edited.pop("tool_choice", None) not in _LENIENT:
            raise _refuse_forced()
    elif kept != tools:
        _edit_choice(edited, target)
    return edited


def _declares(item: Any) -> bool:
    """Return whether an item of the input declares tools."""
    return isinstance(item, dict) and isinstance(item.get("tools"), list)


def _pick(tools: list[Any], target: Target) -> list[Any]:
    kept = []
    for tool in tools:
        if not _may_pass(tool, target):
            continue
        kept.append({**tool, "tools": _pick(tool["tools"], target)} if _declares(tool) else tool)
    return kept


def _edit_choice(body: Json, target: Target) -> None:
    """Leave out a choice of what was left out."""
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return
    if _declares(choice):
        choice = {**choice, "tools": _pick(choice["tools"], target)}
        body["tool_choice"] = choice
        if choice["tools"]:
            return
    elif _may_pass(choice, target):
        return
    if choice.get("mode") != "auto":
        raise _refuse_forced()
    del body["tool_choice"]


def _refuse_forced() -> BadRequest:
    why = "It forces a tool that the provider would run itself and charge for"
    return refuse("tool_choice", None, why)


_LENIENT: Final = (None, "auto", "none")


def _may_pass(tool: Any, target: Target) -> bool:
    return all(is_open(family, target) for family in list_families(tool))
