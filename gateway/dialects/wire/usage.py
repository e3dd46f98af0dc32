"""Usage objects in OpenAI's shape, and in those of providers who imitate it.

The vendors' shapes are in tests/dialects/wire/usage.txt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.base.money import NONE, Tokens
from gateway.base.prices import BillTerms, name_tier
from gateway.base.usage import Expected, Reported, are_counts, read_count
from gateway.dialects.wire.jsonbytes import get_list, get_object
from gateway.dialects.wire.provider_bill import TELLS_MORE, read_bill_nano, read_tool_calls
from gateway.dialects.wire.records import Json

_NAMES: Final = {
    "input": ("prompt_tokens", "input_tokens"),
    "output": ("completion_tokens", "output_tokens"),
    "total": ("total_tokens",),
    "details": (
        *("prompt_tokens_details", "input_tokens_details"),
        *("prompt_token_details", "input_token_details"),
    ),
    "output_details": ("completion_tokens_details", "output_tokens_details"),
    "cached": (
        *("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens"),
        *("cache_read_tokens", "num_cached_tokens"),
    ),
    "written": (
        *("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens"),
        "cached_creation_tokens",
    ),
    "lifetimes": ("cache_creation", "cache_creation_token_details"),
    "written_5m": ("ephemeral_5m_input_tokens", "claude_cache_creation_5_m_tokens"),
    "written_1h": ("ephemeral_1h_input_tokens", "claude_cache_creation_1_h_tokens"),
}
"""The names that a member may have, by its role: members of a usage, of the details of its input, and of
cache writes by lifetime. Chat providers also use the names of Responses providers, and vice versa."""
_ROLES: Final = {name: role for role, names in _NAMES.items() for name in names}
_LIFETIMES: Final = frozenset({"written_5m", "written_1h"})
_WRITES: Final = _LIFETIMES | {"written", "lifetimes"}
"""The roles of cache writes, which most replies do not have."""
_READ_BESIDE: Final = "cache_read_input_tokens"
"""Anthropic's name. In Anthropic's usage the input does not include the cached tokens."""
_INPUT_MEDIA: Final = {"audio_tokens": "audio_input", "image_tokens": "image_input"}
_OUTPUT_MEDIA: Final = {"audio_tokens": "audio_output", "image_tokens": "image_output"}


def tells_work(usage: Json | None) -> bool:
    """Return whether a usage counts anything, in any unit: then the provider worked, and charges for it."""
    members = [*(usage or {}).items()]
    members += [member for _, held in members if type(held) is dict for member in held.items()]
    for name, value in members:
        if not _WORK.search(name):
            continue
        # Older servers write seconds as a string. Not isinstance: it takes `True` for an int.
        if type(value) is str and _POSITIVE.fullmatch(value):
            return True
        if (type(value) is int or type(value) is float) and value > 0:
            return True
    return False


_WORK: Final = re.compile("token|second|unit|character|cost", re.IGNORECASE)
"""Matches the names of counts, but not of times such as `queue_time`."""


_POSITIVE: Final = re.compile(r"(?=.*[1-9])[0-9]{1,9}(\.[0-9]+)?")


def read_openai_usage(usage: object, tier: object, expected: Expected) -> Reported:
    """Read a usage object and the service tier of its reply."""
    told: Json = usage if type(usage) is dict else {}
    report, _ = _read_counts(told, hour=expected.options.cache == "1h")
    if served := name_tier(tier, told.get("service_tier")):
        report.terms = BillTerms(served)
    if not TELLS_MORE.isdisjoint(told):
        report.tool_calls, report.cost_nano = read_tool_calls(told), read_bill_nano(told)
    return report


@dataclass(slots=True)
class _Counts:
    """The counts of a usage: as it states them, until `_reconcile` makes them disjoint."""

    details: Json
    output_details: Json
    is_detail: bool
    """The cached tokens are a detail of the input, as at OpenAI."""
    input: int = 0
    output: int = 0
    total: int = 0
    cached: int = 0
    written: int = 0
    lifetimes: Json = field(default_factory=dict)
    """The parts of `written` by their roles, as far as they are stated."""
    has_input: bool = False
    has_output: bool = False


def _read_counts(usage: Json, *, hour: bool = False) -> tuple[Reported, bool]:
    """Read the counts, and whether cached tokens are beside the input. `hour`: writes were to last one."""
    counts = _sort_out(usage)
    is_beside = _reconcile(counts, usage)
    short, long, guessed = _split_written(counts, hour=hour) if counts.written else (0, 0, False)
    media = _read_media(counts.details, _INPUT_MEDIA, counts.input) if counts.details else {}
    if counts.output_details:
        media |= _read_media(counts.output_details, _OUTPUT_MEDIA, counts.output)
    tokens = Tokens(counts.input, counts.cached, short, counts.output, long, media or NONE)
    return Reported(tokens, counts.has_input, counts.has_output, guessed=guessed), is_beside


def _sort_out(usage: Json) -> _Counts:
    """Find the counts. An impossible one invalidates its half of the usage, which is estimated instead."""
    told = _sort(usage)
    details = get_object(told, "details")
    within = _sort(details) if details else details
    counts = _Counts(details, get_object(told, "output_details"), "cached" in within)
    given: Any = told.get("input")
    made: Any = told.get("output")
    total: Any = told.get("total")
    cached: Any = within.get("cached") or told.get("cached") or 0
    written = 0
    if not (_WRITES.isdisjoint(told) and _WRITES.isdisjoint(within) and "x_details" not in usage):
        written, counts.lifetimes = _read_writes(usage, told, within)
    if are_counts(given, cached, written):
        counts.has_input = True
        counts.input, counts.cached, counts.written = given, cached, written
        if are_counts(total):
            counts.total = total
            made = 0 if made is None else made  # the total tells the output
    if are_counts(made):
        counts.has_output, counts.output = True, made
    return counts


def _reconcile(counts: _Counts, usage: Json) -> bool:
    """Take the cached and written tokens out of the input; divide what only the total includes.

    Returns whether cached or written tokens were beside the input.
    """
    surplus, read, wrote = counts.total - counts.input - counts.output, 0, 0
    if surplus > 0 and _is_audio(surplus, usage, counts.details):
        counts.input += surplus
        counts.details, surplus = {**counts.details, "audio_tokens": surplus}, 0
    reasoning = read_count(counts.output_details.get("reasoning_tokens")) or 0
    if counts.cached or counts.written:
        read, wrote = _find_beside(counts, surplus, reasoning, is_named=_READ_BESIDE in usage)
    # If a provider leaves reasoning out of the output, it exceeds the output, or the total includes it.
    if counts.has_output:
        missing = reasoning if reasoning > counts.output else 0
        counts.output += max(surplus - read - wrote, missing, 0)
    counts.input += read + wrote - counts.cached - counts.written
    return read + wrote > 0


def _sort(holder: Json) -> Json:
    """Return the members by role. If several have one role, the first in `_NAMES` that is not zero counts."""
    found: Json = {}
    for name, value in holder.items():
        if value is None or name not in _ROLES:
            continue
        role = _ROLES[name]
        if role not in found or (value and not found[role]):
            found[role] = value
        elif value and value != found[role]:
            found[role] = next(holder[one] for one in _NAMES[role] if holder.get(one))
    return found


def _read_writes(usage: Json, told: Json, within: Json) -> tuple[Any, Json]:
    """Read the tokens written to a cache: their total, and the parts for 5 minutes and for an hour."""
    lasting = _sort(get_object(told, "lifetimes") or get_object(within, "lifetimes")) or told
    short, long = lasting.get("written_5m"), lasting.get("written_1h")
    written: object = within.get("written") or told.get("written") or lasting.get("written") or 0
    if not written and "x_details" in usage:
        # Only Qwen reports cache writes separately for each turn of a reply.
        turns = (one for one in get_list(usage, "x_details") if type(one) is dict)
        found = (_sort(get_object(turn, "prompt_tokens_details")).get("written") for turn in turns)
        written = sum(read_count(one) or 0 for one in found)
    if not written and are_counts(short or 0, long or 0):
        written = (short or 0) + (long or 0)
    return written, lasting


def _is_audio(surplus: int, usage: Json, details: Json) -> bool:
    """Return whether the total's surplus is recordings, which Mistral leaves out of the input."""
    told = details.get("audio_tokens")
    return bool(told == surplus or (not told and usage.get("prompt_audio_seconds")))


def _find_beside(
    counts: _Counts, surplus: int, reasoning: int, *, is_named: bool
) -> tuple[int, int]:
    """Return how many of the cached and of the written tokens are counted beside the input.

    The total's `surplus` may be these, or `reasoning` that the output leaves out. `is_named`: the name is
    Anthropic's, whose counts do not overlap.
    """
    cached, written = counts.cached, counts.written
    # If the surplus is exactly the reasoning, that explains it, and no cache does.
    if surplus > 0 and (surplus != reasoning or is_named):
        for read, wrote in ((cached, written), (0, written), (cached, 0)):
            fits = cached - read + written - wrote <= counts.input
            if read + wrote and fits and read + wrote in (surplus, surplus - reasoning):
                return read, wrote
    if cached + written <= counts.input:
        return 0, 0
    if counts.is_detail and cached <= counts.input:
        return 0, written  # LiteLLM adds cache reads to the input, but not cache writes
    return cached, written


def _split_written(counts: _Counts, *, hour: bool) -> tuple[int, int, bool]:
    """Divide cache writes into those for 5 minutes and those for an hour; return whether that is a guess."""
    # The request asked for an hour, which costs more, and the reply does not contradict that.
    if hour and _LIFETIMES.isdisjoint(counts.lifetimes):
        return 0, counts.written, True
    lasting = min(read_count(counts.lifetimes.get("written_1h")) or 0, counts.written)
    return counts.written - lasting, lasting, False


def _read_media(details: Json, names: Mapping[str, str], most: int) -> dict[str, int]:
    """Read the counts of other media in one part of the tokens, together at most `most`."""
    found: dict[str, int] = {}
    for told in names:
        # Media have prices of their own: a detail beyond its total must not raise the bill above it.
        if told in details and (count := min(read_count(details[told]) or 0, most)):
            found[names[told]] = count
            most -= count
    return found


def make_cache_details(tokens: Tokens) -> Json:
    """Write the details of an input, as OpenAI's APIs have them."""
    written = tokens.cache_write + tokens.cache_write_1h
    return {"cached_tokens": tokens.cached_input, "cache_write_tokens": written}


def find_chunk_usage(chunk: Json) -> Json | None:
    """Return the usage of a chunk, wherever it is: Kimi puts it into the choice, Groq into `x_groq`."""
    usage = chunk.get("usage")
    if type(usage) is not dict:
        match chunk.get("choices"):
            case [dict(first), *_]:
                usage = first.get("usage")
            case _:
                usage = None
    if type(usage) is not dict and "x_groq" in chunk:
        usage = get_object(chunk, "x_groq").get("usage")
    return usage if type(usage) is dict else None


def drop_usage(holder: Any) -> Any:
    """Return a reply, a chunk or a choice without the usage at its top, and in `x_groq`."""
    if type(holder) is not dict:
        return holder
    kept = {key: value for key, value in holder.items() if key != "usage"}
    if "x_groq" in kept:
        kept["x_groq"] = drop_usage(kept["x_groq"])
    return kept


def maybe_repair_chat_usage(usage: Json) -> Json | None:
    """Return the usage with all tokens that are charged; None if it has them already or is unreadable."""
    report, is_beside = _read_counts(usage)
    tokens = report.tokens
    if not (report.has_input and report.has_output) or tells(usage, tokens):
        return None
    repaired = {**usage, **make_chat_usage(tokens)}
    if is_beside:
        told = get_object(usage, "prompt_tokens_details")
        repaired["prompt_tokens_details"] = told | make_cache_details(tokens)
    return repaired


def tells(usage: Json, tokens: Tokens) -> bool:
    """Return whether a usage has exactly these counts of input and output, and their sum."""
    told = [*map(usage.get, _CHAT_COUNTS)]
    prompt = tokens.all_input
    return are_counts(*told) and told == [prompt, tokens.output, prompt + tokens.output]


def has_counts(usage: Json) -> bool:
    """Return whether a usage has the three counts that clients read, even if they are wrong."""
    return are_counts(*map(usage.get, _CHAT_COUNTS))


def make_chat_usage(tokens: Tokens) -> Json:
    """Write a usage object for a reply whose upstream gave none: callers expect one."""
    prompt = tokens.all_input
    return dict(zip(_CHAT_COUNTS, (prompt, tokens.output, prompt + tokens.output), strict=True))


_CHAT_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
