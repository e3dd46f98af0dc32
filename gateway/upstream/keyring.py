"""The keys of one provider: the one that serves a request, and those that rest.

Requests of one conversation, or else of one caller, go out by the same key, so that the provider's
prompt cache keeps hitting. Each key has a rank for each affinity, by a hash (rendezvous hashing):
when one rests, only its own requests move to others.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Sequence
from typing import Final

from gateway.apikeys import find_last4
from gateway.errors import GatewayError, UpstreamError

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
        if len(self.keys) > 1:
            seconds = error.rest_seconds or REST_SECONDS
            key.rests_until = time.monotonic() + seconds
            log.warning(
                "provider %s: the key that ends in %s rests for %.0f s: %s",
                *(self._provider, key.last4, seconds, error.cause),
            )
        return True
