"""The usage of a response: the tokens it reports, and its text to estimate them from."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.records import Json
from gateway.dialects.wire import PICTURE_BYTES, get_list, get_object
from gateway.money import Tokens
from gateway.prices import UNSAID, Terms, name_tier
from gateway.usage import (
    MAX_PLAUSIBLE_SEARCHES,
    Expected,
    Reported,
    UsageLimits,
    are_counts,
    count_text,
)

OUTPUT: Final = "output_tokens"
_FILLED_LATER: Final = frozenset({"message", "reasoning"})
"""Types of items that bring nothing but their text."""


def read_responses_usage(
    usage: object, tier: object, searches: int, expected: Expected
) -> Reported:
    """Read a usage object, given the service tier of the response and its web searches.

    Cached and written tokens are inside `input_tokens`, and reasoning is inside `output_tokens`.
    """
    told: Json = usage if type(usage) is dict else {}
    served = name_tier(tier)
    terms = Terms(served) if served else UNSAID
    searches = min(searches, MAX_PLAUSIBLE_SEARCHES)
    return Reported(_read_tokens(told, expected.limits), searches, terms)


def _read_tokens(usage: Json, limits: UsageLimits) -> Tokens | None:
    given: Any = usage.get("input_tokens")
    made: Any = usage.get(OUTPUT)
    total: Any = usage.get("total_tokens") or 0
    details = get_object(usage, "input_tokens_details")
    cached: Any = details.get("cached_tokens") or 0
    written: Any = details.get("cache_write_tokens") or 0
    made = 0 if made is None else made
    if not are_counts(given, made, total, cached, written):
        return None
    output = max(made, total - given)
    if given > limits.input or output > limits.output:
        return None
    cached = min(cached, given)
    written = min(written, given - cached)
    return Tokens(given - cached - written, cached, written, output)


def read_items(response: Json) -> list[Json]:
    """Return the items of a response's output."""
    return [item for item in get_list(response, "output") if type(item) is dict]


def is_search(item: Json) -> bool:
    """Return whether an item is a web search, which is charged; opening a page found is not."""
    if item.get("type") != "web_search_call":
        return False
    return get_object(item, "action").get("type") in (None, "search")


def is_made(item: Json) -> bool:
    """Return whether an item brings something by itself, such as a function's name."""
    return item.get("type") not in _FILLED_LATER


def count_item_text(item: Json) -> int:
    """Count the UTF-8 bytes that an item brings: text, reasoning, arguments; pictures as text."""
    total = count_text(item.get("arguments"), item.get("input"), item.get("code"))
    if item.get("type") == "image_generation_call":
        total += PICTURE_BYTES
    for key in ("content", "summary"):
        for part in get_list(item, key):
            if type(part) is dict:
                total += count_text(part.get("text"), part.get("refusal"))
    return total
