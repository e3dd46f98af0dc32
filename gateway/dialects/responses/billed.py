"""Fields and tools that change the bill of a Responses upstream (OpenAI's API reference and its price list).

Fields without a price are refused. Tools without one are left out, never refused: agents such as Codex
declare them in every request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from gateway.dialects.chat import BILLED as CHAT_BILLED
from gateway.dialects.records import Json, Target
from gateway.dialects.wire import (
    ANY_TOOL,
    WEB_SEARCH,
    Billed,
    check_fields,
    get_list,
    get_object,
    is_search_priced,
)
from gateway.prices import NOTHING_SPECIAL, Asked, Terms, name_tier

_CHATS_ALONE: Final = frozenset({"web_search_options", "modalities", "audio"})
BILLED: Final[Mapping[str, Billed]] = {
    name: row for name, row in CHAT_BILLED.items() if name not in _CHATS_ALONE
}
"""The fields that cost, by name."""

_FREE_TOOLS: Final = frozenset(
    {"apply_patch", "custom", "function", "local_shell", "namespace", "tool_search"}
)
"""Tools that the caller runs itself, or that cost the tokens of the usage and nothing else."""
_VERSION: Final = re.compile(r"(?:_preview)?(?:_\d{4}_\d\d_\d\d)?$")
_FAMILIES: Final = {"code_interpreter": "code_execution"}
"""The name of a tool in `allow`, where it differs from the type."""


def check_billed(body: Json, target: Target) -> None:
    """Refuse fields that cost and have no price. Raises BadRequest, naming the field."""
    check_fields(body, BILLED, target)


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
        edited.pop("tool_choice", None)  # a choice among none is refused
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
    del body["tool_choice"]


def _may_pass(tool: Any, target: Target) -> bool:
    kind = tool.get("type") if isinstance(tool, dict) else None
    if kind is None or str(kind) in _FREE_TOOLS:
        return True
    if kind == "shell":
        return get_object(tool, "environment").get("type") in (None, "local")
    family = _find_family(kind)
    return (family == WEB_SEARCH and is_search_priced(kind, target)) or family in target.allow


def _find_family(kind: object) -> str:
    family = _VERSION.sub("", str(kind))
    return _FAMILIES.get(family, family)


def read_asked(body: Json, data: bytes) -> Asked:  # noqa: ARG001 - no marks of caches
    """Read the service tier, and one web search for each tool that may make some."""
    kinds = (tool.get("type") for tool in get_list(body, "tools") if isinstance(tool, dict))
    searches = sum(_find_family(kind) == WEB_SEARCH for kind in kinds)
    tier = body.get("service_tier")
    if tier is None and not searches:
        return NOTHING_SPECIAL
    return Asked(
        terms=Terms(service_tier=name_tier(tier)),
        any_tier=tier in (None, "auto"),
        web_searches=searches,
    )
