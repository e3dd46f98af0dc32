"""Token usage: what an upstream reports, or an estimate from the bytes. No I/O.

The rules are design.md §5: the last non-null usage object counts; one that cannot be counts as
none; without one, four UTF-8 bytes of text are a token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.money import Tokens

BYTES_PER_TOKEN: Final = 4
TOKENS_PER_FILE: Final = 1000
"""What a picture, a recording or a document is taken for when nobody counts it."""
MAX_PLAUSIBLE_TOKENS: Final = 10**9
"""Of input or output of one request, whatever the model's limits."""
IMPLAUSIBLE_FACTOR: Final = 10
"""A usage beyond ten times the model's limits is a broken upstream, not a large request."""


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """The most tokens that a usage report of this request can plausibly name."""

    input: int
    output: int


def estimate_tokens(text_bytes: int, files: int = 0) -> int:
    return -(-text_bytes // BYTES_PER_TOKEN) + files * TOKENS_PER_FILE


def read_chat_usage(usage: Mapping[str, Any] | None, limits: UsageLimits) -> Tokens | None:
    """The tokens of a chat usage object, or None when it is missing or cannot be.

    `cached_tokens` and `cache_write_tokens` are inside `prompt_tokens` (wire.md §1.3; DeepSeek
    calls the first `prompt_cache_hit_tokens`). Output is max(completion, total - prompt), since
    some vendors leave reasoning out of `completion_tokens` (wire.md §0.7).
    """
    if usage is None:
        return None
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens", 0))
    if prompt is None or completion is None:
        return None
    total = _count(usage.get("total_tokens", prompt + completion))
    details = usage.get("prompt_tokens_details") or {}
    if total is None or not isinstance(details, Mapping):
        return None
    cached = _count(details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0)
    written = _count(details.get("cache_write_tokens") or 0)
    output = max(completion, total - prompt)
    if cached is None or written is None or prompt > limits.input or output > limits.output:
        return None
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    return Tokens(prompt - cached - written, cached, written, output)


def maybe_repair_chat_usage(usage: Mapping[str, Any]) -> dict[str, Any] | None:
    """The usage with its total made the sum (spec 2.4), or None when it is well or unreadable."""
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens"))
    if prompt is None or completion is None:
        return None
    total = _count(usage.get("total_tokens"))
    if total == prompt + completion:
        return None
    output = completion if total is None else max(completion, total - prompt)
    return {**usage, "completion_tokens": output, "total_tokens": prompt + output}


def make_chat_usage(tokens: Tokens) -> dict[str, Any]:
    """A usage object for a reply whose upstream gave none (spec 2.4 wants one in every reply)."""
    prompt = tokens.input + tokens.cached_input + tokens.cache_write
    return {
        "prompt_tokens": prompt,
        "completion_tokens": tokens.output,
        "total_tokens": prompt + tokens.output,
    }


def _count(value: object) -> int | None:
    """A token count: an integer, not a bool, not negative; else None."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    return None


def read_messages_usage(usage: Mapping[str, Any] | None, limits: UsageLimits) -> Tokens | None:
    """The tokens of a messages usage object, or None when it is missing or cannot be.

    The three input classes are disjoint here (wire.md §4.2). Cache writes for 5 minutes and for
    an hour are one class, priced by `cache_write`.
    """
    if usage is None:
        return None
    counts = [_count(usage.get(key) or 0) for key in _MESSAGES_CLASSES]
    if usage.get("input_tokens") is None or usage.get("output_tokens") is None or None in counts:
        return None
    tokens = Tokens(*(count for count in counts if count is not None))
    if tokens.total - tokens.output > limits.input or tokens.output > limits.output:
        return None
    return tokens


_MESSAGES_CLASSES: Final = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)
"""In the order of `Tokens`' fields."""
