"""Fields that change the bill of a chat upstream (OpenAI's, OpenRouter's, xAI's and Azure's references)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.dialects.records import Json, Target
from gateway.dialects.wire import (
    WEB_SEARCH,
    Billed,
    among,
    check_fields,
    check_tool,
    get_list,
    is_search_priced,
)
from gateway.prices import NOTHING_SPECIAL, Asked, Terms, name_tier


def _is_tier_priced(value: Any, target: Target) -> bool:
    return isinstance(value, str) and target.prices.has_rule("service_tier", name_tier(value))


BILLED: Final[Mapping[str, Billed]] = {
    # Other prices for the same tokens.
    "service_tier": Billed(among("auto", "default", "standard"), _is_tier_priced),
    # Fees per search, and sources that are charged one by one.
    "web_search_options": Billed(among(), is_search_priced),
    "search_parameters": Billed(),
    "enable_search": Billed(),
    # Tokens of other kinds, at prices of their own.
    "modalities": Billed(among([], ["text"])),
    "audio": Billed(),
    # These change where a request is served, or what is added to it.
    "models": Billed(),
    "route": Billed(),
    "provider": Billed(),
    "preset": Billed(),
    "plugins": Billed(),
    "transforms": Billed(),
    "data_sources": Billed(),
}
"""The fields that cost, by name. A value that asks for nothing is accepted everywhere."""
_MAY_COST: Final = frozenset({*BILLED, "tools"})

_FREE_TOOLS: Final = frozenset({"function", "custom"})
"""Tools that the caller runs itself."""


def check_billed(body: Json, target: Target) -> None:
    """Refuse what costs and has no price. Raises BadRequest, naming the field."""
    if _MAY_COST.isdisjoint(body):
        return
    check_fields(body, BILLED, target)
    for index, tool in enumerate(get_list(body, "tools")):
        kind = _find_kind(tool)
        if kind not in _FREE_TOOLS:
            check_tool(f"tools[{index}].type", kind, kind, target)


def _find_kind(tool: object) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else None
    return "function" if kind is None else str(kind)


def read_asked(body: Json, data: bytes) -> Asked:  # noqa: ARG001 - chat marks no caches
    """Read the service tier and the web search, which OpenAI charges once per request."""
    if _MAY_COST.isdisjoint(body):
        return NOTHING_SPECIAL
    tier = body.get("service_tier")
    searches = [_find_kind(tool) for tool in get_list(body, "tools")].count(WEB_SEARCH)
    searches += body.get("web_search_options") is not None
    if tier is None and not searches:
        return NOTHING_SPECIAL
    return Asked(
        terms=Terms(service_tier=name_tier(tier)),
        any_tier=tier in (None, "auto"),
        web_searches=searches,
    )
