"""Usage objects in OpenAI's shape, and in those of providers who imitate it.

The vendors' shapes are in tests/dialects/wire/usage.txt.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
_WRITES: Final = frozenset({"written", "lifetimes", "written_5m", "written_1h"})
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


def _read_counts(usage: Json, *, hour: bool = False) -> tuple[Reported, bool]:
    """Read the counts, and whether cached tokens are beside the input. `hour`: writes were to last one."""
    told = _sort(usage)
    given: Any = told.get("input")
    made: Any = told.get("output")
    total: object = told.get("total")
    details: Json = held if type(held := told.get("details")) is dict else {}
    made_details: Json = held if type(held := told.get("output_details")) is dict else {}
    within = _sort(details) if details else details
    cached: Any = within.get("cached") or told.get("cached") or 0
    written, short, long = 0, None, None
    if not (_WRITES.isdisjoint(told) and _WRITES.isdisjoint(within) and "x_details" not in usage):
        written, short, long = _read_writes(usage, told, within)
    # An impossible count invalidates its half of the usage, which is estimated instead.
    if not (has_input := are_counts(given, cached, written)):
        given = cached = written = 0
    if not has_input or not are_counts(total):
        total = None
    made = 0 if made is None and total is not None else made  # then the total tells the output
    if not (has_output := are_counts(made)):
        made = 0
    more, hidden, read, wrote = (total or 0) - given - made, 0, 0, 0
    if more > 0 and _is_audio(more, usage, details):
        given, more, details = given + more, 0, {**details, "audio_tokens": more}
    if made_details:
        hidden = read_count(made_details.get("reasoning_tokens")) or 0
    if cached or written:
        named = _READ_BESIDE in usage
        read, wrote = _find_beside(
            (cached, written), given, more, hidden, is_named=named, is_detail="cached" in within
        )
    # If a provider leaves reasoning out of the output, it exceeds the output, or the total includes it.
    output = made + max(more - read - wrote, hidden if hidden > made else 0, 0)
    fresh = given - (cached - read) - (written - wrote)
    parts = _split_written(written, short, long, hour=hour) if written else (0, 0, False)
    media = _read_media(details, _INPUT_MEDIA, fresh) if details else {}
    if made_details:
        media |= _read_media(made_details, _OUTPUT_MEDIA, output)
    tokens = Tokens(fresh, cached, parts[0], output * has_output, parts[1], media or NONE)
    return Reported(tokens, has_input, has_output, guessed=parts[2]), read + wrote > 0


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


def _read_writes(usage: Json, told: Json, within: Json) -> tuple[Any, Any, Any]:
    """Read the tokens written to a cache: the total, those for 5 minutes, and those for an hour."""
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
    return written, short, long


def _is_audio(more: int, usage: Json, details: Json) -> bool:
    """Return whether the total's surplus (`more`) is recordings, which Mistral leaves out of the input."""
    told = details.get("audio_tokens")
    return bool(told == more or (not told and usage.get("prompt_audio_seconds")))


def _find_beside(
    cache: tuple[int, int], given: int, more: int, hidden: int, *, is_named: bool, is_detail: bool
) -> tuple[int, int]:
    """Return how many of the cached and of the written tokens are counted beside the input.

    Args:
        cache: the tokens read from a cache, and those written to one.
        given: the count of the input.
        more: the tokens of the total beyond input and output.
        hidden: tokens of reasoning, which the total may include although the output does not.
        is_named: the name is Anthropic's, whose counts do not overlap.
        is_detail: the cached tokens are a detail of the input, as at OpenAI.
    """
    cached, written = cache
    # If the surplus is exactly the hidden reasoning, that explains it, and no cache does.
    if more > 0 and (more != hidden or is_named):
        for read, wrote in ((cached, written), (0, written), (cached, 0)):
            fits = cached - read + written - wrote <= given
            if read + wrote and fits and read + wrote in (more, more - hidden):
                return read, wrote
    if cached + written <= given:
        return 0, 0
    if is_detail and cached <= given:
        return 0, written  # LiteLLM adds cache reads to the input, but not cache writes
    return cached, written


def _split_written(
    written: int, short: object, long: object, *, hour: bool
) -> tuple[int, int, bool]:
    """Divide cache writes into those for 5 minutes and those for an hour; return whether that is a guess."""
    # The request asked for an hour, which costs more, and the reply does not contradict that.
    if hour and short is None and long is None:
        return 0, written, True
    lasting = min(read_count(long) or 0, written)
    return written - lasting, lasting, False


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
