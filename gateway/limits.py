"""Rates of a key: requests and tokens a minute as token buckets, and requests at once. No I/O.

Times are seconds of a monotonic clock, handed in. A bucket holds one minute's worth and refills
evenly; what does not fit is told when it will.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from gateway.errors import RateLimited

WINDOW_SECONDS: Final = 60.0


class Bucket:
    """A bucket of `limit` a minute, full at first."""

    __slots__ = ("_at", "_level", "limit")

    def __init__(self, limit: int, now: float) -> None:
        self.limit = limit
        self._level = float(limit)
        self._at = now

    def level(self, now: float) -> float:
        """What is left at `now`; below 0 when more was used than estimated."""
        refilled = self._level + (now - self._at) * self.limit / WINDOW_SECONDS
        self._level = min(float(self.limit), refilled)
        self._at = now
        return self._level

    def wait_seconds(self, amount: float, now: float) -> float:
        """How long until `amount` fits (a full bucket takes any amount); 0 when it does now."""
        missing = min(amount, float(self.limit)) - self.level(now)
        return max(0.0, missing * WINDOW_SECONDS / self.limit)

    def take(self, amount: float) -> None:
        self._level -= amount

    def reset_seconds(self, now: float) -> float:
        """How long until the bucket is full again."""
        return (self.limit - self.level(now)) * WINDOW_SECONDS / self.limit


@dataclass(slots=True)
class KeyRates:
    """What one key has used of its rates. A limit of 0 is none."""

    requests: Bucket | None
    tokens: Bucket | None
    concurrency: int
    in_flight: int = 0

    def renew(self, other: KeyRates) -> KeyRates:
        """Take over another's limits; what is in flight stays counted here."""
        self.requests, self.tokens = other.requests, other.tokens
        self.concurrency = other.concurrency
        return self

    def admit(self, now: float) -> None:
        """Count one request in. Raises RateLimited; then nothing was counted."""
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
        """The request counted in by `admit` is over."""
        self.in_flight -= 1

    def take_tokens(self, estimate: int, now: float) -> None:
        """Count estimated tokens in. Raises RateLimited; then nothing was counted."""
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
        """Put the true count in the place of the estimate."""
        if self.tokens is not None:
            self.tokens.take(used - estimate)

    def describe(self, now: float) -> Mapping[str, str]:
        """`x-ratelimit-*` headers, as OpenAI's (wire.md §2.1): counts and Go durations."""
        headers: dict[str, str] = {}
        for name, bucket in self._buckets():
            headers[f"x-ratelimit-limit-{name}"] = str(bucket.limit)
            headers[f"x-ratelimit-remaining-{name}"] = str(max(0, int(bucket.level(now))))
            headers[f"x-ratelimit-reset-{name}"] = format_duration(bucket.reset_seconds(now))
        return headers

    def describe_for_messages(self, now: float, now_ms: int) -> Mapping[str, str]:
        """`anthropic-ratelimit-*` headers (wire.md §2.2): counts and RFC 3339 times."""
        headers: dict[str, str] = {}
        for name, bucket in self._buckets():
            reset = now_ms / 1000 + bucket.reset_seconds(now)
            prefix = f"anthropic-ratelimit-{name}"
            headers[f"{prefix}-limit"] = str(bucket.limit)
            headers[f"{prefix}-remaining"] = str(max(0, int(bucket.level(now))))
            headers[f"{prefix}-reset"] = f"{datetime.fromtimestamp(reset, UTC):%Y-%m-%dT%H:%M:%SZ}"
        return headers

    def _buckets(self) -> list[tuple[str, Bucket]]:
        named = (("requests", self.requests), ("tokens", self.tokens))
        return [(name, bucket) for name, bucket in named if bucket is not None]


def make_rates(
    *, requests_per_minute: int, tokens_per_minute: int, concurrency: int, now: float
) -> KeyRates:
    return KeyRates(
        Bucket(requests_per_minute, now) if requests_per_minute else None,
        Bucket(tokens_per_minute, now) if tokens_per_minute else None,
        concurrency,
    )


def format_duration(seconds: float) -> str:
    """A Go duration as OpenAI writes it: `12ms`, `1s`, `6m0s`."""
    milliseconds = max(0, round(seconds * 1000))
    if milliseconds < 1000:  # noqa: PLR2004 - a second
        return f"{milliseconds}ms"
    whole = -(-milliseconds // 1000)
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
