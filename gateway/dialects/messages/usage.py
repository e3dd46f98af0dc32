"""The usage of a message: what it reports, and its text to estimate tokens from."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.records import Json
from gateway.dialects.wire import PICTURE_BYTES, dumps_lenient, get_list, get_object, get_text
from gateway.money import Tokens
from gateway.prices import Terms, name_tier
from gateway.usage import (
    MAX_PLAUSIBLE_SEARCHES,
    Expected,
    Reported,
    are_counts,
    count_text,
    read_count,
)

_NO_REGION: Final = "not_available"
"""The `inference_geo` of models that are served in one place."""
_SEARCH_RESULT: Final = "web_search_tool_result"


def read_messages_usage(
    usage: object, expected: Expected, searches: int = 0, *, counted: bool = True
) -> Reported:
    """Read a usage object. Null is absence, field by field.

    Args:
        usage: the object; None where there is none.
        expected: says how long the input was to be cached, where the usage does not.
        searches: web searches whose results came, should the usage not count them.
        counted: the usage covers the whole reply, not only its beginning.
    """
    if not isinstance(usage, dict):
        return Reported(web_searches=searches or None, guessed=searches > 0)
    terms = Terms(
        service_tier=name_tier(usage.get("service_tier")),
        speed=get_text(usage, "speed"),
        inference_geo=get_text(usage, "inference_geo").replace(_NO_REGION, ""),
    )
    used = usage.get("server_tool_use")
    told = read_count(used.get("web_search_requests")) if type(used) is dict else None
    guessed = searches > (told or 0) and not (counted and told is not None)
    searches = min(searches if guessed else told or 0, MAX_PLAUSIBLE_SEARCHES)
    tokens, unsure = _read_all_tokens(usage, hour=expected.asked.cache == "1h")
    limits = expected.limits
    if tokens and (tokens.all_input > limits.input or tokens.output > limits.output):
        tokens = None
    return Reported(tokens, searches, terms, guessed or unsure)


def _read_all_tokens(usage: Json, *, hour: bool) -> tuple[Tokens | None, bool]:
    """Read the counts; tell whether the lifetime of cache writes is a guess.

    `iterations` complete them: with compaction the figures beside them leave some out.
    """
    iterations = get_list(usage, "iterations")
    parts = iterations and [one for one in iterations if type(one) is dict]
    if not parts:
        return _read_tokens(usage, hour=hour)
    found = [_read_tokens({**_NOTHING, **_drop_nulls(one)}, hour=hour) for one in (usage, *parts)]
    unsure = any(guessed for _, guessed in found)
    counts = [tokens for tokens, _ in found if tokens is not None]
    if len(counts) < len(found):
        return None, unsure
    top, total = counts[0], _add(counts[1:])
    writes = max(top, total, key=lambda one: one.cache_write + one.cache_write_1h)
    tokens = Tokens(
        max(top.input, total.input),
        max(top.cached_input, total.cached_input),
        writes.cache_write,
        max(top.output, total.output),
        writes.cache_write_1h,
    )
    return tokens, unsure


_NOTHING: Final[Json] = {"input_tokens": 0, "output_tokens": 0}
"""The counts of an iteration that leaves them out."""


def _read_tokens(usage: Json, *, hour: bool) -> tuple[Tokens | None, bool]:
    """Read one object of counts; cache writes that it does not class are as asked for (`hour`)."""
    fresh: Any = usage.get("input_tokens")
    output: Any = usage.get("output_tokens")
    cached: Any = usage.get("cache_read_input_tokens") or 0
    written: Any = usage.get("cache_creation_input_tokens") or 0
    creation = get_object(usage, "cache_creation")
    short: Any = creation.get("ephemeral_5m_input_tokens") or 0
    long: Any = creation.get("ephemeral_1h_input_tokens") or 0
    if not are_counts(fresh, output, cached, written, short, long):
        return None, False
    rest = max(written - short - long, 0)
    if hour:
        return Tokens(fresh, cached, short, output, long + rest), rest > 0
    return Tokens(fresh, cached, short + rest, output, long), False


def _drop_nulls(usage: Json) -> Json:
    return {key: value for key, value in usage.items() if value is not None}


def _add(counts: list[Tokens]) -> Tokens:
    return Tokens(
        sum(one.input for one in counts),
        sum(one.cached_input for one in counts),
        sum(one.cache_write for one in counts),
        sum(one.output for one in counts),
        sum(one.cache_write_1h for one in counts),
    )


def is_search(block: object) -> bool:
    """Return whether a block is the result of a web search, which is charged; errors are not."""
    if type(block) is not dict or block.get("type") != _SEARCH_RESULT:
        return False
    return isinstance(block.get("content"), list)


def count_message_text(message: Json) -> int:
    """Count the UTF-8 bytes that a message's blocks bring."""
    return sum(count_block_text(block) for block in message["content"] if isinstance(block, dict))


def count_block_text(block: Json) -> int:
    """Count the UTF-8 bytes that a block or a delta brings: text, thinking and a tool's input."""
    if block.get("type") == "image":
        return PICTURE_BYTES
    total = count_text(block.get("text"), block.get("thinking"), block.get("partial_json"))
    return total + len(dumps_lenient(block["input"])) if "input" in block else total


def count_start_text(block: Json) -> int:
    """Count the UTF-8 bytes of a block as it begins: an empty input is filled by its deltas."""
    return 0 if block.get("input") == {} else count_block_text(block)


def is_made(block: Json) -> bool:
    """Return whether a block that begins brings something by itself, such as a tool's name."""
    return block.get("type") not in _FILLED_LATER


_FILLED_LATER: Final = frozenset({"text", "thinking"})
