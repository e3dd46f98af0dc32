"""Fields that change the bill of a messages upstream (Anthropic API reference, "Pricing")."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.dialects.records import Json, Target
from gateway.dialects.wire import (
    WEB_SEARCH,
    Billed,
    among,
    check_fields,
    check_tool,
    get_list,
    get_text,
    refuse,
)
from gateway.errors import BadRequest
from gateway.prices import CONDITIONS, NOTHING_SPECIAL, Asked, Terms, name_tier


def _is_rule_for(condition: str) -> Callable[[Any, Target], bool]:
    return lambda value, target: isinstance(value, str) and target.prices.has_rule(condition, value)


BILLED: Final[Mapping[str, Billed]] = {
    # Other prices for the same tokens.
    "speed": Billed(among("standard"), _is_rule_for("speed")),
    "inference_geo": Billed(among("global"), _is_rule_for("inference_geo")),
    # Other models, at their own prices.
    "fallbacks": Billed(),
    # Time of machines, and servers that are called on the operator's account.
    "container": Billed(),
    "mcp_servers": Billed(),
}
"""The fields that cost, by name. A value that asks for nothing is accepted everywhere."""
_MAY_COST: Final = frozenset({*BILLED, "tools"})
_TERMS: Final = frozenset(CONDITIONS)

_VERSION: Final = re.compile(r"_20\d{6}$")
_FREE_TOOLS: Final = frozenset(
    {
        # Tools that the caller runs itself.
        "bash",
        "computer",
        "custom",
        "memory",
        "text_editor",
        # These cost the tokens that the usage reports, and nothing else.
        "tool_search_tool_bm25",
        "tool_search_tool_regex",
    }
)
"""By family: the type without its date."""
_MCP_TOOLS: Final = "mcp_toolset"
_HOUR_MARK: Final = b'"ttl":"1h"'
_CACHE_MARK: Final = b'"cache_control":{'
"""Cache marks as the payload writes them. In a text the quotes would be escaped."""


def check_billed(body: Json, target: Target) -> None:
    """Refuse what costs and has no price. Raises BadRequest, naming the field."""
    if _MAY_COST.isdisjoint(body):
        return
    check_container(body)
    check_fields(body, BILLED, target)
    for index, tool in enumerate(get_list(body, "tools")):
        where, family = f"tools.{index}.type", _find_family(tool)
        if family == _MCP_TOOLS and "mcp_servers" not in target.allow:
            raise refuse(where, family, "It calls servers on the operator's account")
        if family not in _FREE_TOOLS and family != _MCP_TOOLS:
            check_tool(where, tool["type"], family, target)


def check_container(body: Json) -> None:
    """Refuse a container that exists already. Raises BadRequest."""
    container = body.get("container")
    if isinstance(container, str) or (isinstance(container, dict) and container.get("id")):
        raise BadRequest(
            "container: containers of the operator's own account cannot be named.",
            param="container",
        )


def read_asked(body: Json, data: bytes) -> Asked:
    """Read speed, region and service tier, the searches to expect, and cache marks."""
    cache = "1h" if _HOUR_MARK in data else "5m" if _CACHE_MARK in data else ""
    searches = sum(map(_expect_searches, body.get("tools") or ()))
    if _TERMS.isdisjoint(body) and not searches and not cache:
        return NOTHING_SPECIAL
    terms = Terms(
        service_tier=name_tier(body.get("service_tier")),
        speed=get_text(body, "speed"),
        inference_geo=get_text(body, "inference_geo"),
    )
    any_tier = body.get("service_tier") in (None, "auto")
    return Asked(terms, any_tier, searches, cache)


def _find_family(tool: object) -> str:
    kind = tool.get("type") if isinstance(tool, dict) else None
    return "custom" if kind is None else _VERSION.sub("", str(kind))


def _expect_searches(tool: object) -> int:
    """Return the most searches that a tool allows, or one where it sets no limit."""
    if not isinstance(tool, dict) or _find_family(tool) != WEB_SEARCH:
        return 0
    most = tool.get("max_uses")
    return most if isinstance(most, int) and not isinstance(most, bool) and most > 0 else 1
