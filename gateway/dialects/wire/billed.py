"""Fields and tools that change a provider's bill, and which of them a request may use.

Each upstream dialect has a table `BILLED` of such fields. A model opens one by a price (a rule of
`price_when`, or `web_search`), or by its name in `allow`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.records import Json, Target
from gateway.errors import BadRequest

ANY_TOOL: Final = "tools"
"""The name in `allow` that opens tools of all kinds."""
WEB_SEARCH: Final = "web_search"
BILLED_TOOLS: Final = frozenset(
    {
        ANY_TOOL,
        WEB_SEARCH,
        "advisor",
        "code_execution",
        "file_search",
        "image_generation",
        "mcp",
        "web_fetch",
    }
)
"""Tools that a model can allow, by name or all together."""


def _asks(value: Any) -> bool:
    return value not in (None, [], {}, "", False)


@dataclass(frozen=True, slots=True)
class Billed:
    """A field that changes the provider's bill."""

    asks: Callable[[Any], bool] = _asks
    """Returns whether a value asks for something that costs."""
    is_priced: Callable[[Any, Target], bool] = lambda _value, _target: False
    """Returns whether the model has a price for the value."""


def among(*free: object) -> Callable[[Any], bool]:
    """Make a test for values that ask for more than the standard, which is `free`."""
    return lambda value: value not in (None, *free)


def is_search_priced(_value: Any, target: Target) -> bool:
    return target.prices.base.web_search > 0


def check_fields(body: Json, table: Mapping[str, Billed], target: Target) -> None:
    """Refuse fields that cost and have no price. Raises BadRequest."""
    if table.keys().isdisjoint(body):
        return
    for name, row in table.items():
        value = body.get(name)
        if row.asks(value) and name not in target.allow and not row.is_priced(value, target):
            raise refuse(name, value, "It changes what the provider charges")


def check_tool(where: str, kind: object, family: str, target: Target) -> None:
    """Refuse a tool that the provider runs itself, and that has no price. Raises BadRequest."""
    if family == WEB_SEARCH and is_search_priced(kind, target):
        return
    if family not in target.allow and ANY_TOOL not in target.allow:
        raise refuse(where, kind, "The provider would run this tool itself and charge for it")


_WORD: Final = re.compile(r"[\w.-]{1,64}")
"""A value that an error may quote; anything else may be content."""


def refuse(name: str, value: object, why: str) -> BadRequest:
    is_word = isinstance(value, str) and _WORD.fullmatch(value)
    named = f"'{name}' '{value}'" if is_word else f"'{name}'"
    return BadRequest(
        f"Unsupported parameter: {named}. {why}, and this model has no price for it here. Leave it "
        "out, or ask whoever runs this gateway.",
        param=name,
        code="unsupported_parameter",
    )
