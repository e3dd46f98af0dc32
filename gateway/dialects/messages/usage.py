"""The usage of Messages replies, read for the charge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.base.money import NONE, Tokens
from gateway.base.prices import CONDITIONS, BillTerms, name_tier
from gateway.base.usage import Expected, Reported, are_counts
from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.provider_bill import TELLS_MORE, read_bill_nano, read_tool_calls
from gateway.dialects.wire.records import Json

_NO_REGION: Final = "not_available"
"""The `inference_geo` of models that are served in one place."""


def read_messages_usage(
    usage: object, expected: Expected, came: Mapping[str, int] = NONE, *, counted: bool = True
) -> Reported:
    """Read a usage object. Null is absence, field by field.

    Args:
        usage: the object; None where there is none.
        expected: says how long the input was to be cached, where the usage does not.
        came: results of the provider's tools, by name, should the usage not count their calls.
        counted: the usage covers the whole reply, not only its beginning.
    """
    none: Json = dict.fromkeys(expected.options.tool_calls, 0)  # the blocks tell of what was run
    if not isinstance(usage, dict):
        return Reported(tool_calls={**none, **came}, guessed=bool(came))
    more = not TELLS_MORE.isdisjoint(usage)
    told = (read_tool_calls(usage) or {}) if more else {}
    used = get_object(usage, "server_tool_use")
    missed: Json = {}
    for name, count in came.items():
        if count > told.get(name, 0) and not (counted and f"{name}_requests" in used):
            missed[name] = count
    hour, parts = expected.options.cache == "1h", usage.get("iterations")
    read = _read_iterations if type(parts) is list and dict in map(type, parts) else _read_tokens
    report = read(usage, hour=hour)
    report.tool_calls = {**none, **told, **missed}
    if not _TERMS.isdisjoint(usage):
        report.terms = BillTerms(
            service_tier=name_tier(usage.get("service_tier")),
            speed=get_text(usage, "speed"),
            inference_geo=get_text(usage, "inference_geo").replace(_NO_REGION, ""),
        )
    report.guessed = report.guessed or bool(missed)
    report.cost_nano = read_bill_nano(usage) if more else None
    return report


def tells_cache(usage: Json) -> bool:
    """Return whether a usage counts tokens that were read from a cache or written to one."""
    return any(map(usage.get, ("cache_read_input_tokens", "cache_creation_input_tokens")))


def _read_iterations(usage: Json, *, hour: bool) -> Reported:
    """Read a usage whose `iterations` complete it."""
    counted = (
        {**_NOTHING, **{key: value for key, value in one.items() if value is not None}}
        for one in (usage, *usage["iterations"])
        if type(one) is dict
    )
    found = [_read_tokens(one, hour=hour) for one in counted]
    # With compaction the plain counts leave some iterations out, so the larger count is right.
    top, *parts = (one.tokens for one in found)
    total = Tokens(**{name: sum(getattr(one, name) for one in parts) for name in _COUNTS})
    tokens = Tokens(**{name: max(getattr(top, name), getattr(total, name)) for name in _COUNTS})
    writes = max(top, total, key=lambda one: one.cache_write + one.cache_write_1h)
    tokens.cache_write, tokens.cache_write_1h = writes.cache_write, writes.cache_write_1h
    has_input = all(one.has_input for one in found)
    has_output = all(one.has_output for one in found)
    return Reported(tokens, has_input, has_output, guessed=any(one.guessed for one in found))


_TERMS: Final = frozenset(CONDITIONS)
_COUNTS: Final = ("input", "cached_input", "cache_write", "output", "cache_write_1h")
_NOTHING: Final[Json] = {"input_tokens": 0, "output_tokens": 0}
"""The counts of an iteration without any."""


def _read_tokens(usage: Json, *, hour: bool) -> Reported:
    """Read one object of counts; cache writes that it does not class are as asked for (`hour`)."""
    fresh: Any = usage.get("input_tokens")
    output: Any = usage.get("output_tokens")
    cached: Any = usage.get("cache_read_input_tokens") or 0
    written: Any = usage.get("cache_creation_input_tokens") or 0
    creation = get_object(usage, "cache_creation")
    short: Any = creation.get("ephemeral_5m_input_tokens") or 0
    long: Any = creation.get("ephemeral_1h_input_tokens") or 0
    has_input, has_output = are_counts(fresh, cached, written, short, long), are_counts(output)
    tokens = Tokens(output=output if has_output else 0)
    if not has_input:
        return Reported(tokens, has_output=has_output)
    total: Any = usage.get("prompt_tokens")
    if are_counts(total) and cached + written <= total < fresh + cached + written:
        fresh = total - cached - written  # at Kimi the input may have the cached tokens in it
    # A stream may tell other parts at its end than at its beginning: they are at most the whole.
    written = written or short + long
    if short + long > written:
        long = min(long, written) if hour else max(written - short, 0)
    rest = max(written - short - long, 0) if hour else 0
    tokens.input, tokens.cached_input = fresh, cached
    tokens.cache_write, tokens.cache_write_1h = written - long - rest, long + rest
    return Reported(tokens, True, has_output, guessed=rest > 0)
