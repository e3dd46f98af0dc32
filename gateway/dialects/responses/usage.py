"""The usage of a response: the tokens it reports, and its text to estimate them from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from gateway.dialects.records import Json, Usage
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.dialects.wire.stream import PICTURE_BYTES
from gateway.dialects.wire.usage import make_cache_details, read_openai_usage
from gateway.money import name_tool
from gateway.usage import Expected, Reported, count_text, read_count

_CALLERS_CALLS: Final = frozenset(
    {f"{name}_call" for name in ("apply_patch", "computer", "custom_tool", "function")}
    | {"local_shell_call", "shell_call", "tool_search_call"}
)
"""Types of items by which the caller is asked to run a tool, or that cost tokens alone."""
_FILLED_LATER: Final = frozenset({"message", "reasoning"})
"""Types of items that bring nothing but their text."""


def read_responses_usage(
    usage: object, tier: object, calls: Mapping[str, int], expected: Expected
) -> Reported:
    """Read a usage object, given the service tier of the response and its items' calls of tools.

    What the usage counts is right: items may tell of calls that are free.
    """
    reported = read_openai_usage(usage, tier, expected)
    none = dict.fromkeys(expected.asked.tool_calls, 0)  # the items tell of what was run
    reported.tool_calls = {**none, **calls, **(reported.tool_calls or {})}
    return reported


def find_usage(response: Json) -> Json | None:
    """Return the usage of a response, with the calls of tools that OpenAI counts beside it."""
    usage, beside = response.get("usage"), get_object(response, "tool_usage")
    if type(usage) is not dict:
        return None
    return (
        {**usage, "tool_usage": {**beside, **get_object(usage, "tool_usage")}} if beside else usage
    )


def read_items(response: Json) -> list[Json]:
    """Return the items of a response's output."""
    return [item for item in get_list(response, "output") if type(item) is dict]


def count_tool_calls(items: Iterable[Json]) -> Counter[str]:
    """Count the calls of tools that the provider ran, by the tool's name."""
    return Counter(name for item in items if (name := find_tool(item)) is not None)


def find_tool(item: Json) -> str | None:
    """Return the tool that an item is a call of, if the provider ran it and charges for it.

    A web search is charged; opening a page that it found is not. The result of a shell is in a reply
    only if it was the provider's.
    """
    kind = get_text(item, "type")
    if kind == "shell_call_output":
        return "shell"
    if not kind.endswith("_call") or kind in _CALLERS_CALLS or item.get("status") == "failed":
        return None
    is_opening = get_object(item, "action").get("type") not in (None, "search")
    is_free = kind == "web_search_call" and is_opening
    return None if is_free else name_tool(kind.removesuffix("_call"))


def is_made(item: Json) -> bool:
    """Return whether an item brings something by itself, such as a function's name."""
    return get_text(item, "type") not in _FILLED_LATER


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


def make_usage(usage: Usage) -> Json:
    """Write a response's usage: the caller is told what is charged."""
    tokens = usage.tokens
    details = get_object(usage.reported or {}, "completion_tokens_details")
    return {
        "input_tokens": tokens.all_input,
        "input_tokens_details": make_cache_details(tokens),
        "output_tokens": tokens.output,
        "output_tokens_details": {
            "reasoning_tokens": read_count(details.get("reasoning_tokens")) or 0
        },
        "total_tokens": tokens.total,
    }
