"""The limits that are in force for a request, and the refusals of what exceeds them.

The API counts what its own process admits. A ledger that several processes share counts for all of
them, see `Ledger.confirm`. Both refuse in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.errors import RateLimited

Owner = Literal["key", "account"]


@dataclass(frozen=True, slots=True)
class Rate:
    """The limits of a key or an account; 0 means unlimited."""

    requests_per_minute: int
    tokens_per_minute: int
    concurrency: int


def refuse_requests(owner: Owner, limit: int, wait_seconds: float) -> RateLimited:
    """Make the refusal of a request that comes too soon; it will fit after the wait."""
    return RateLimited(
        f"This {owner} may make {limit} requests per minute. Try again in {wait_seconds:.1f} s.",
        retry_after_seconds=wait_seconds,
    )


def refuse_tokens(owner: Owner, limit: int, estimate: int, wait_seconds: float) -> RateLimited:
    """Make the refusal of a request whose tokens are too many; they will fit after the wait."""
    return RateLimited(
        f"This {owner} may use {limit} tokens per minute and this request takes about {estimate}."
        f" Try again in {wait_seconds:.1f} s.",
        kind="tokens",
        retry_after_seconds=wait_seconds,
    )


def refuse_concurrency(
    owner: Owner, limit: int, most: str = "as many as it may have at once"
) -> RateLimited:
    """Make the refusal of one request more in flight; `most` says what the limit stands for."""
    return RateLimited(
        f"This {owner} has {limit} requests in flight, {most}. Wait for one to finish."
    )
