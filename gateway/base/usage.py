"""Token usage: reported by an upstream, or estimated from what was sent and delivered.

The dialects read usage objects; this module decides which tokens are charged, and counts the replies
that report none.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.base.money import MEDIA, NONE, TOOL_NAME, Tokens, count_none
from gateway.base.prices import (
    CONDITIONS,
    NOTHING_SPECIAL,
    STANDARD,
    UNSAID,
    BillOptions,
    BillTerms,
)
from gateway.base.times import HOUR_MS

log = logging.getLogger("gateway.usage")

BYTES_PER_TOKEN: Final = 4
"""Bytes per token of English text. Other languages differ, so the result is an estimate."""
MAX_PLAUSIBLE_TOKENS: Final = 10**9
"""The most input or output tokens of a request: several hundred times today's models."""
MAX_PLAUSIBLE_CALLS: Final = 10_000
"""The most calls of one tool that the provider runs. A larger report comes from a broken upstream."""
IMPLAUSIBLE_FACTOR: Final = 10
"""A report above this many times the model's limits is a broken upstream's: the limits in the configuration
may be somewhat too low, but not by so much."""

TOKENS_PER_PICTURE: Final = 1600
"""Tokens of a picture, sent or made: vendors scale pictures down to about as many."""
MOST_TOKENS_PER_PICTURE: Final = 50_000
"""The most that a vendor counts for a picture, however large: OpenAI 48,169 for gpt-4o-mini."""
TOKENS_PER_LINKED_FILE: Final = 20_000
"""Tokens of a document that the provider fetches, of unknown size: about seven pages."""
BASE64_CHARS_PER_TOKEN: Final = {"audio": 400, "document": 8}
"""Recordings of 32 kbit/s at 10 tokens a second; PDF documents of 25 kB and 3,000 tokens a page."""
TOKENS_PER_SECOND: Final = 10
"""Tokens of a second of audio at OpenAI."""
LEAST_TOKENS_PER_FILE: Final = 1500
"""Tokens of the smallest file, about half a page: even a tiny file is not free."""
UNBOUNDED: Final = MAX_PLAUSIBLE_TOKENS
"""The tokens that a part of a request may have beyond its estimate if its bytes do not bound them: only
the model's `max_input_tokens` does. A link may lead to anything, and a few kilobytes can be hours of
silence or a thousand pages."""


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """The most tokens that a usage report, or an estimate, of this request can plausibly name."""

    input: int
    output: int
    estimated_output: int
    """The lower of the caller's limit and the model's cap, times the number of choices."""


@dataclass(slots=True)
class Expected:
    """The gateway's knowledge of a request's usage before its provider reports any."""

    input_tokens: int
    limits: UsageLimits
    options: BillOptions = NOTHING_SPECIAL
    audio_tokens: int = 0
    """The part of `input_tokens` that is recordings."""
    most_input_tokens: int = 0
    """The most tokens that the input may have, where its bytes do not bound it; else 0."""


@dataclass(slots=True)
class Reported:
    """An upstream's report of a reply. Either half may be missing."""

    tokens: Tokens = field(default_factory=Tokens)
    has_input: bool = False
    """The input was reported in plausible numbers."""
    has_output: bool = False
    tool_calls: Mapping[str, int] | None = None
    """Calls per provider-run tool, zeros included; None if not reported."""
    terms: BillTerms = UNSAID
    guessed: bool = False
    """The report leaves out a detail that changes the price; the request's value is used."""
    cost_nano: int | None = None
    """The amount that the provider says it charged."""


@dataclass(slots=True)
class Metered:
    """The usage that a reply is charged for."""

    tokens: Tokens
    estimated: bool
    tool_calls: Mapping[str, int] = field(default_factory=count_none)
    terms: BillTerms = UNSAID
    unreported: bool = False
    """The reply was complete, but its usage was not reported plausibly, or only half of it."""
    reported_cost_nano: int | None = None
    """The amount that the provider says it charged."""


def estimate_tokens(text_bytes: int) -> int:
    return -(-text_bytes // BYTES_PER_TOKEN)


def estimate_file(kind: str, base64_chars: int) -> int:
    """Estimate the tokens of a file in a request: a `picture`, an `audio` or a `document`."""
    if kind == "picture":
        return TOKENS_PER_PICTURE
    if not base64_chars:
        return TOKENS_PER_LINKED_FILE
    return max(base64_chars // BASE64_CHARS_PER_TOKEN[kind], LEAST_TOKENS_PER_FILE)


def find_more_tokens(kind: str, base64_chars: int) -> int:
    """Return how many tokens a file may have beyond its estimate."""
    is_picture = kind == "picture" and base64_chars
    return MOST_TOKENS_PER_PICTURE - TOKENS_PER_PICTURE if is_picture else UNBOUNDED


def meter(
    reported: Reported,
    text_bytes: int,
    expected: Expected,
    *,
    complete: bool,
    counted: bool = True,
    delivered: bool = False,
) -> Metered:
    """Decide what to charge for, and say whether it is estimated.

    Args:
        reported: the upstream's own count, terms and bill; a bill counts for a whole reply alone.
        text_bytes: UTF-8 bytes of text, reasoning and arguments that were delivered.
        expected: tokens, terms and calls to charge where the upstream is silent.
        complete: the reply came to its end. Before that, the output is at least what was delivered:
            an upstream that breaks off has often counted only the beginning.
        counted: the report covers the whole reply, given that it is complete.
        delivered: anything was delivered, be it a tool's name and no text.
    """
    covers, options = complete and counted, expected.options
    terms, calls, estimated = reported.terms, NONE, reported.guessed
    if reported.tool_calls or options.tool_calls or options.terms is not UNSAID:
        terms, calls, estimated = _complete(reported, options)
    tokens, limits = reported.tokens, expected.limits
    # Every request has input, and every delivered reply has output tokens, so such zeros are ignored.
    has_input = reported.has_input and 0 < tokens.all_input <= limits.input
    must_count = covers and limits.output > 0 and (delivered or text_bytes > 0)
    has_output = reported.has_output and int(must_count) <= tokens.output <= limits.output
    unreported = complete and not (has_input and has_output and counted)
    if not (has_input and has_output and covers):
        output = min(estimate_tokens(text_bytes), limits.estimated_output)
        if not has_output or (not covers and output > tokens.output):
            tokens, estimated = _estimate_output(tokens, output), True
        if not has_input:
            tokens, estimated = _estimate_input(tokens, expected), True
    # The bill for a partial reply would be less than the provider's final bill.
    bill = reported.cost_nano if covers else None
    return Metered(tokens, estimated or unreported, calls, terms, unreported, bill)


def _estimate_output(tokens: Tokens, output: int) -> Tokens:
    media = {name: told for name, told in tokens.media.items() if MEDIA[name] != "output"}
    return replace(tokens, output=output, media=media)


def _estimate_input(tokens: Tokens, expected: Expected) -> Tokens:
    media = {name: told for name, told in tokens.media.items() if MEDIA[name] != "input"}
    if audio_tokens := min(expected.audio_tokens, expected.input_tokens):
        media["audio_input"] = audio_tokens
    return Tokens(expected.input_tokens, output=tokens.output, media=media)


def _complete(
    reported: Reported, options: BillOptions
) -> tuple[BillTerms, Mapping[str, int], bool]:
    """Return the terms and the calls of tools of a reply, and whether anything in its report is a guess.

    What was requested and is not reported counts: a term as requested, and one call of each tool. Names
    and counts come from the provider: malformed ones are left out.
    """
    terms, told = reported.terms, reported.tool_calls or NONE
    missing = {
        name: asked
        for name in CONDITIONS
        if (asked := getattr(options.terms, name)) not in ("", STANDARD)
        and not getattr(terms, name)
    }
    calls = {name: 1 for name in options.tool_calls if name not in told}
    guessed = reported.guessed or bool(missing or calls)
    for name, count in told.items():
        if count and TOOL_NAME.fullmatch(name):
            calls[name] = min(count, MAX_PLAUSIBLE_CALLS)
    return replace(terms, **missing) if missing else terms, calls, guessed


def merge_reports(
    earlier: Mapping[str, object] | None, later: Mapping[str, object]
) -> dict[str, object]:
    """Complete a report by a later one, field by field, also within its details.

    Null and empty objects are absence, and neither a zero nor a negative number replaces a value.
    """
    # Some vendors send the input at the beginning of a stream and repeat it as 0 or null at the end.
    merged = dict(earlier or ())
    for key, value in later.items():
        if type(value) is dict:
            before = merged.get(key)
            value = merge_reports(before if type(before) is dict else None, value)  # noqa: PLW2901
        told = value and not (type(value) is int and value < 0)
        if told or (key not in merged and value is not None and value != {}):
            merged[key] = value
    return merged


def read_count(value: object) -> int | None:
    """Read a token count: an integer, not a bool, not negative; else None."""
    return value if type(value) is int and value >= 0 else None


def are_counts(*values: object) -> bool:
    """Return whether `read_count` accepts all values."""
    for value in values:  # noqa: SIM110 - `all` takes five times as long
        if type(value) is not int or value < 0:
            return False
    return True


def count_text(*texts: object) -> int:
    """Count the UTF-8 bytes of the strings among `texts`; a lone surrogate counts as three."""
    total = 0
    for text in texts:
        if isinstance(text, str):
            total += len(text.encode("utf-8", "surrogatepass"))
    return total


@dataclass(slots=True)
class MissingUsage:
    """The replies of one provider and model without a usage, since the start."""

    provider: str
    model: str
    count: int = 0
    last_ms: int = 0
    logged_hour: int = -1


class MissingUsages:
    """The counts by provider and model. The configuration bounds their number."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], MissingUsage] = {}

    def note(self, provider: str, model: str, now_ms: int) -> None:
        """Count a reply; log the first of each hour."""
        found = self._found.setdefault((provider, model), MissingUsage(provider, model))
        found.count += 1
        found.last_ms = now_ms
        hour = now_ms // HOUR_MS
        if found.logged_hour != hour:
            found.logged_hour = hour
            log.warning(
                "provider %s reports no usage, or an implausible one, for model %s: %d replies are"
                " charged by an estimate since the start",
                provider,
                model,
                found.count,
            )

    def list_latest(self) -> list[MissingUsage]:
        """Return the counts, the latest first."""
        return sorted(self._found.values(), key=lambda one: -one.last_ms)
