"""Circuit breakers of providers, and provider keys that rest: what is not used for a while. No I/O.

A breaker, after repeated failures, makes the routes of a provider, or of a model there, come last.

    closed ── 5 failures in a row ──> open, 30 s ──> one probe ── it works ──> closed
                                          ^                    └─ it fails ──┘

Times are seconds of a monotonic clock, passed in.

Requests of one conversation, or else of one caller, go out by the same key of a provider, so that the
provider's prompt cache keeps hitting. A hash ranks the keys for each affinity (rendezvous hashing): when
a key rests, only its own requests move to other keys.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Final, Literal, Protocol

from gateway.base.errors import GatewayError, UpstreamError
from gateway.base.ids import find_last4
from gateway.config.records import KeySource

FAILURES: Final = 5
"""Failures in a row that open a breaker. Single 5xx are common at providers that work."""
OPEN_SECONDS: Final = 30.0
"""The pause before a probe, about as long as a server takes to restart: a failed probe costs a
caller."""
INSTANT_SECONDS: Final = 0.1
"""The time within which broken replies share one cause, such as a proxy that restarts."""

BreakerState = Literal["closed", "open", "probing"]


class Breaker:
    """Counts failures in a row. An open breaker lets one request through as a probe."""

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

    def fail(self, now: float, *, at_once: bool = False) -> bool:
        """Note that the provider failed; return whether this opened the breaker.

        `at_once`: the failure does not count if another was noted at the same instant.
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


log = logging.getLogger("gateway.rests")

REST_SECONDS: Final = 60.0
"""How long a key rests that the provider refuses, or limits without naming a time."""
KEY_STATUSES: Final = frozenset({401, 402, 403, 429})
"""Answers that refuse or limit our key, and not the request."""
UNAUTHORIZED: Final = 401
"""The status that clouds send when a key has expired."""
_HASH_BYTES: Final = 8
"""Bytes of a hash: enough that no two keys have the same rank."""


class Renewing(Protocol):
    """The background renewal of a key."""

    def hurry(self, refused: str) -> None:
        """Renew the key soon if it is still the one that was refused."""

    async def replace(self, refused: str, is_over: Callable[[], bool]) -> bool:
        """Return whether the refused key has been replaced.

        Wait for a new key a while, unless the request `is_over`.
        """


class ProviderKey:
    """One key and its state. A renewed key takes the place of the old one between two requests."""

    __slots__ = (
        *("_identity", "before", "failed_ms", "in_flight", "last4", "problem", "renewing"),
        *("rests_until", "secret", "source"),
    )

    def __init__(self, secret: str, source: KeySource | None = None) -> None:
        self.secret = secret
        """The key; "" if there is none, or while its source has given none."""
        self.source = source
        self.before = ""
        """The key before the last renewal: replies to it may still be under way."""
        self.last4 = find_last4(secret) or ""
        self.in_flight = 0
        self.rests_until = 0.0
        """Monotonic seconds."""
        self.problem = ""
        """Why the last renewal failed; "" if it succeeded."""
        self.failed_ms = 0
        """When renewals last began to fail, in Unix milliseconds."""
        self.renewing: Renewing | None = None
        self._identity = hashlib.sha256((source.place if source else secret).encode()).digest()

    @property
    def is_lacking(self) -> bool:
        """Return whether the key's source has given no key yet."""
        return not self.secret and self.source is not None

    def renew(self, secret: str) -> bool:
        """Take a key from the source; return whether it differs from the present one."""
        self.problem = ""
        if secret == self.secret:
            return False
        self.before, self.secret = self.secret, secret
        self.last4 = find_last4(secret) or ""
        self.rests_until = 0.0  # the old key was refused, not this one
        return True

    @property
    def rest_seconds(self) -> int:
        """The whole seconds until the key is used again; 0 if it does not rest."""
        return math.ceil(max(self.rests_until - time.monotonic(), 0.0))

    def note_failure(self, problem: str, now_ms: int) -> None:
        """Note that the source gave no key."""
        if not self.problem:
            self.failed_ms = now_ms
        self.problem = problem

    def rank(self, affinity: str) -> bytes:
        # A caller's JSON may hold lone surrogates.
        identified = self._identity + affinity.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(identified, digest_size=_HASH_BYTES).digest()


class KeyRing:
    """All keys of one provider, at least one: "" stands for none."""

    __slots__ = ("_provider", "keys")

    def __init__(
        self,
        provider: str,
        secrets: Sequence[str],
        sources: Sequence[KeySource | None] = (),
        before: Sequence[ProviderKey] = (),
    ) -> None:
        """`before`: the provider's keys with the previous settings. Keys of the same sources are kept."""
        known = {key.source: key for key in before if key.source is not None}
        self.keys = tuple(
            _keep(known, secret, source)
            for secret, source in zip_longest(secrets or ("",), sources)
        )
        self._provider = provider

    def list_secrets(self) -> list[str]:
        """Return all secrets that a provider may repeat in a reply."""
        return [secret for key in self.keys for secret in (key.secret, key.before)]

    def line_up(self, affinity: str) -> Sequence[ProviderKey]:
        """Return the keys to try, in order; if all rest, only the key that rests least."""
        now = time.monotonic()
        ranked = sorted(self.keys, key=lambda key: key.rank(affinity), reverse=True)
        awake = [key for key in ranked if key.rests_until <= now and not key.is_lacking]
        return awake or [min(ranked, key=lambda key: key.rests_until)]

    def let_rest(self, key: ProviderKey, sent: str, error: GatewayError) -> bool:
        """Return whether the provider refused the key, not the request; that key then rests.

        `sent` is the key as it was sent.
        """
        if not isinstance(error, UpstreamError) or error.upstream_status not in KEY_STATUSES:
            return False
        if key.secret != sent:  # renewed meanwhile: the new key was not refused
            return True
        if key.renewing is not None and error.upstream_status == UNAUTHORIZED:
            key.renewing.hurry(sent)
        # An only key is tried in any case, so a rest would change nothing.
        if len(self.keys) > 1:
            seconds = error.rest_seconds or REST_SECONDS
            key.rests_until = time.monotonic() + seconds
            log.warning(
                "provider %s: the key that ends in %s rests for %.0f s: %s",
                *(self._provider, key.last4, seconds, error.cause),
            )
        return True


def _keep(
    known: Mapping[KeySource, ProviderKey], secret: str, source: KeySource | None
) -> ProviderKey:
    """Return the known key of a source, which may have been renewed, or make one."""
    kept = None if source is None else known.get(source)
    if kept is None:
        return ProviderKey(secret, source)
    if secret:
        kept.renew(secret)
    return kept
