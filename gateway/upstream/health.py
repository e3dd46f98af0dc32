"""Circuit breakers of providers and models, and rests of keys: what is not asked for a while. No I/O.

A breaker, after repeated failures, makes the routes of a provider, or of a model there, come last.

    closed ── 5 failures in a row ──> open, 30 s ──> one probe ── it works ──> closed
                                          ^                    └─ it fails ──┘

Times are seconds of a monotonic clock, passed in.

Requests of one conversation, or else of one caller, go out by the same key of a provider, so that the
provider's prompt cache keeps hitting. Each key has a rank for each affinity, by a hash
(rendezvous hashing): when one rests, only its own requests move to others.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Sequence
from typing import Final, Literal

from gateway.errors import GatewayError, UpstreamError
from gateway.ids import find_last4

FAILURES: Final = 5
"""Failures in a row that open it. Single 5xx are common at providers that work."""
OPEN_SECONDS: Final = 30.0
"""The pause before a probe, about as long as a server takes to restart: a failed probe costs a
caller."""
INSTANT_SECONDS: Final = 0.1
"""The time within which broken replies share one cause, such as a proxy that restarts."""

BreakerState = Literal["closed", "open", "probing"]


class Breaker:
    """Counts failures in a row; open, it lets one request through as a probe."""

    __slots__ = ("_failed_at", "_open_until", "_probing", "failures")

    def __init__(self) -> None:
        self.failures = 0
        """Failures in a row, up to now."""
        # A monotonic clock may begin at 0, and the first failure has to count.
        self._failed_at = -INSTANT_SECONDS
        self._open_until = 0.0
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self.failures >= FAILURES

    def describe(self, now: float) -> tuple[BreakerState, int]:
        """Return the state, and the whole seconds until a request may try again.

        `open` with 0 seconds: the next request is the probe. `probing`: one is in flight.
        """
        if not self.is_open:
            return "closed", 0
        if self._probing:
            return "probing", 0
        return "open", max(math.ceil(self._open_until - now), 0)

    def wait_seconds(self, now: float) -> float:
        """Return how long no request may be sent; 0 if one may, perhaps as the probe."""
        if not self.is_open:
            return 0.0
        if now < self._open_until:
            return self._open_until - now
        return OPEN_SECONDS if self._probing else 0.0

    def begin(self) -> None:
        """Note that a request goes out: while the breaker is open it is the probe."""
        if self.is_open:
            self._probing = True

    def succeed(self) -> bool:
        """Note that the provider answered; return whether this closed the breaker."""
        was_open = self.is_open
        self.failures = 0
        self._probing = False
        return was_open

    def fail(self, now: float, *, at_once: bool = False) -> bool:
        """Note that the provider failed; return whether this opened the breaker.

        `at_once`: it does not count if another failure was noted at the same instant.
        """
        was_open = self.is_open
        self._probing = False
        # A proxy that restarts breaks all streams at once: that is one failure, not five.
        if at_once and now - self._failed_at < INSTANT_SECONDS:
            return False
        self._failed_at = now
        self.failures += 1
        if self.is_open:
            self._open_until = now + OPEN_SECONDS
        return self.is_open and not was_open

    def forget(self) -> None:
        """Note that the probe ended without saying anything about the provider."""
        self._probing = False


log = logging.getLogger("gateway.upstream")

REST_SECONDS: Final = 60.0
"""How long a key rests that the provider refuses, or limits without naming a time."""
KEY_STATUSES: Final = frozenset({401, 402, 403, 429})
"""Answers that refuse or limit our key, and not the request."""
_HASH_BYTES: Final = 8
"""Enough of a hash for two keys not to have the same rank."""


class ProviderKey:
    """One key and its state."""

    __slots__ = ("_identity", "in_flight", "last4", "rests_until", "secret")

    def __init__(self, secret: str) -> None:
        self.secret = secret
        self.last4 = find_last4(secret) or ""
        self.in_flight = 0
        self.rests_until = 0.0
        """Monotonic seconds."""
        self._identity = hashlib.sha256(secret.encode()).digest()

    @property
    def rest_seconds(self) -> int:
        """The whole seconds until it serves again; 0 if it does."""
        return math.ceil(max(self.rests_until - time.monotonic(), 0.0))

    def rank(self, affinity: str) -> bytes:
        # A caller's JSON may hold lone surrogates.
        identified = self._identity + affinity.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(identified, digest_size=_HASH_BYTES).digest()


class KeyRing:
    """All keys of one provider, at least one: "" stands for none."""

    __slots__ = ("_provider", "keys")

    def __init__(self, provider: str, secrets: Sequence[str]) -> None:
        self.keys = tuple(ProviderKey(secret) for secret in secrets or ("",))
        self._provider = provider

    def line_up(self, affinity: str) -> Sequence[ProviderKey]:
        """Return the keys to try, in order. If all of them rest, it is the one that rests least."""
        if len(self.keys) == 1:
            return self.keys
        now = time.monotonic()
        ranked = sorted(self.keys, key=lambda key: key.rank(affinity), reverse=True)
        awake = [key for key in ranked if key.rests_until <= now]
        return awake or [min(ranked, key=lambda key: key.rests_until)]

    def let_rest(self, key: ProviderKey, error: GatewayError) -> bool:
        """Return whether the provider refused the key, not the request; that key then rests."""
        if not isinstance(error, UpstreamError) or error.upstream_status not in KEY_STATUSES:
            return False
        # An only key is tried all the same, so a rest would mean nothing.
        if len(self.keys) > 1:
            seconds = error.rest_seconds or REST_SECONDS
            key.rests_until = time.monotonic() + seconds
            log.warning(
                "provider %s: the key that ends in %s rests for %.0f s: %s",
                *(self._provider, key.last4, seconds, error.cause),
            )
        return True
