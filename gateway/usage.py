"""Token usage: reported by an upstream, or estimated from what was sent and delivered.

The dialects read usage objects; this module decides which tokens are charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gateway.money import Tokens
from gateway.prices import CONDITIONS, NOTHING_SPECIAL, STANDARD, UNSAID, Asked, Terms

BYTES_PER_TOKEN: Final = 4
"""Bytes per token of English text. Other languages differ, so it gives an estimate."""
MAX_PLAUSIBLE_TOKENS: Final = 10**9
"""Input or output tokens of a request, at most: several hundred times today's models."""
MAX_PLAUSIBLE_SEARCHES: Final = 10_000
"""Web searches of a request, at most: a larger report comes from a broken upstream."""
IMPLAUSIBLE_FACTOR: Final = 10
"""A report above this many times the model's limits comes from a broken upstream."""

TOKENS_PER_PICTURE: Final = 1600
"""Tokens of a picture, sent or made: vendors scale pictures down to about as many."""
TOKENS_PER_LINKED_FILE: Final = 20_000
"""Tokens of a document that the provider fetches, of unknown size: about seven pages."""
BASE64_CHARS_PER_TOKEN: Final = {"audio": 400, "document": 8}
"""Recordings of 32 kbit/s at 10 tokens a second; PDF documents of 25 kB and 3,000 tokens a page."""
LEAST_TOKENS_PER_FILE: Final = 1500
"""Tokens of the smallest file, about half a page: even a tiny file is not free."""


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """The most tokens that a usage report, or an estimate, of this request can plausibly name."""

    input: int
    output: int
    estimated_output: int
    """The least of the caller's limit and the model's cap, for all choices."""


@dataclass(slots=True)
class Expected:
    """The gateway's knowledge of a request's usage before its provider reports any."""

    input_tokens: int
    limits: UsageLimits
    asked: Asked = NOTHING_SPECIAL


@dataclass(slots=True)
class Reported:
    """An upstream's report of a reply."""

    tokens: Tokens | None = None
    """None if the count is missing or implausible."""
    web_searches: int | None = None
    terms: Terms = UNSAID
    guessed: bool = False
    """The report leaves out a detail that changes the price; the request's word stands for it."""
    cost_nano: int | None = None
    """The amount that the provider says it charged."""


@dataclass(slots=True)
class Metered:
    """The usage that a reply is charged for."""

    tokens: Tokens
    estimated: bool
    web_searches: int = 0
    terms: Terms = UNSAID
    unreported: bool = False
    """The reply was complete, and its upstream reported no usage that can be."""
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
        reported: the upstream's own count and terms.
        text_bytes: UTF-8 bytes of text, reasoning and arguments that were delivered.
        expected: tokens, terms and searches to charge where the upstream is silent.
        complete: the reply came to its end. Before that, the output is at least what was delivered:
            an upstream that breaks off has often counted only the beginning.
        counted: the report covers the whole reply, given that it is complete.
        delivered: anything was delivered, be it a tool's name and no text.
    """
    covers = complete and counted
    tokens, asked = reported.tokens, expected.asked
    terms, searches, estimated = reported.terms, reported.web_searches, reported.guessed
    if asked.terms is not UNSAID and (missing := _find_missing(terms, asked.terms)):
        terms, estimated = replace(terms, **missing), True
    if searches is None:
        searches = asked.web_searches
        estimated |= searches > 0
    made = covers and (delivered or text_bytes > 0)
    if tokens is not None and (tokens.all_input == 0 or (made and tokens.output == 0)):
        tokens = None  # there is no request without input, nor a reply for nothing
    unreported = complete and (tokens is None or not counted)
    if tokens is None or not covers:
        output = min(estimate_tokens(text_bytes), expected.limits.estimated_output)
        if tokens is None:
            tokens, estimated = Tokens(input=expected.input_tokens, output=output), True
        elif output > tokens.output:
            tokens, estimated = replace(tokens, output=output), True
    estimated |= unreported
    return Metered(tokens, estimated, searches, terms, unreported, reported.cost_nano)


def _find_missing(served: Terms, asked: Terms) -> dict[str, str]:
    """Find the terms that were asked for and that a reply leaves out: that they hold is a guess."""
    return {
        name: getattr(asked, name)
        for name in CONDITIONS
        if not getattr(served, name) and getattr(asked, name) not in ("", STANDARD)
    }


def merge_reports(
    earlier: Mapping[str, Any] | None, later: Mapping[str, Any], output: str
) -> dict[str, Any]:
    """Complete a report by a later one. Null is absence, and zeros replace no counts.

    `output` is the name of the count of the output.
    """
    told = {key: value for key, value in later.items() if value is not None}
    if not earlier:
        return told
    counts = [value for key, value in told.items() if key.endswith("_tokens")]
    if counts and not any(counts):
        return {**told, **earlier}
    if told.get(output) == 0 and earlier.get(output):
        del told[output]
    return {**earlier, **told}


def read_count(value: object) -> int | None:
    """Read a token count: an integer, not a bool, not negative; else None."""
    return value if type(value) is int and value >= 0 else None


def are_counts(*values: object) -> bool:
    """Return whether `read_count` would read them all."""
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
