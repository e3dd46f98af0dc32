"""The rates of a key: requests and tokens per minute as token buckets, and concurrency. No I/O.

A bucket holds the amount of one minute and refills evenly. A refusal says when the request will fit.
Times are seconds of a monotonic clock, passed in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from gateway.dialects import RateLimit
from gateway.errors import RateLimited

WINDOW_SECONDS: Final = 60.0
"""Limits are per minute."""


class Bucket:
    """A token bucket of `limit` per minute, full at first."""

    __slots__ = ("_at", "_level", "limit")

    def __init__(self, limit: int, now: float) -> None:
        self.limit = limit
        self._level = float(limit)
        self._at = now

    def level(self, now: float) -> float:
        """Return the level at `now`; below 0 when more was used than estimated."""
        refilled = self._level + (now - self._at) * self.limit / WINDOW_SECONDS
        self._level = min(float(self.limit), refilled)
        self._at = now
        return self._level

    def wait_seconds(self, amount: float, now: float) -> float:
        """Return the time until `amount` fits, 0 if it fits now. A full bucket takes any amount."""
        missing = min(amount, float(self.limit)) - self.level(now)
        return max(0.0, missing * WINDOW_SECONDS / self.limit)

    def take(self, amount: float) -> None:
        self._level -= amount

    def reset_seconds(self, now: float) -> float:
        """Return the time until the bucket is full again."""
        return (self.limit - self.level(now)) * WINDOW_SECONDS / self.limit

    def describe(self, name: Literal["requests", "tokens"], now: float) -> RateLimit:
        remaining = max(0, int(self.level(now)))
        return RateLimit(name, self.limit, remaining, self.reset_seconds(now))


@dataclass(slots=True)
class KeyRates:
    """The use that one key makes of its rates. A limit of 0 means unlimited."""

    requests: Bucket | None
    tokens: Bucket | None
    concurrency: int
    in_flight: int = 0

    def renew(self, other: KeyRates) -> KeyRates:
        """Take over the limits of `other`; requests in flight stay counted here."""
        self.requests, self.tokens = other.requests, other.tokens
        self.concurrency = other.concurrency
        return self

    def admit(self, now: float) -> None:
        """Count a request. Raises RateLimited, and then counts nothing."""
        if self.concurrency and self.in_flight >= self.concurrency:
            raise RateLimited(
                f"This key has {self.concurrency} requests in flight, as many as it may have at "
                "once. Wait for one to finish."
            )
        if self.requests is not None:
            wait = self.requests.wait_seconds(1, now)
            if wait > 0:
                raise RateLimited(
                    f"This key may make {self.requests.limit} requests per minute. "
                    f"Try again in {wait:.1f} s.",
                    retry_after_seconds=wait,
                )
            self.requests.take(1)
        self.in_flight += 1

    def release(self) -> None:
        """Note that a request counted by `admit` is over."""
        self.in_flight -= 1

    def take_tokens(self, estimate: int, now: float) -> None:
        """Count estimated tokens. Raises RateLimited, and then counts nothing."""
        if self.tokens is None:
            return
        wait = self.tokens.wait_seconds(estimate, now)
        if wait > 0:
            raise RateLimited(
                f"This key may use {self.tokens.limit} tokens per minute and this request takes "
                f"about {estimate}. Try again in {wait:.1f} s.",
                kind="tokens",
                retry_after_seconds=wait,
            )
        self.tokens.take(estimate)

    def correct_tokens(self, estimate: int, used: int) -> None:
        """Replace an estimate by the true count."""
        if self.tokens is not None:
            self.tokens.take(used - estimate)

    def list_limits(self, now: float) -> list[RateLimit]:
        """Return the limits that the key has, with what remains of them."""
        found: list[RateLimit] = []
        if self.requests is not None:
            found.append(self.requests.describe("requests", now))
        if self.tokens is not None:
            found.append(self.tokens.describe("tokens", now))
        return found


def make_rates(
    *, requests_per_minute: int, tokens_per_minute: int, concurrency: int, now: float
) -> KeyRates:
    return KeyRates(
        Bucket(requests_per_minute, now) if requests_per_minute else None,
        Bucket(tokens_per_minute, now) if tokens_per_minute else None,
        concurrency,
    )
