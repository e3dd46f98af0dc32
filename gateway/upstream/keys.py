"""The keys of a provider, some of which rest: they are not used for a while. No I/O.

Requests of one conversation, or else of one caller, go out by the same key of a provider, so that the
provider's prompt cache keeps hitting. A hash ranks the keys for each affinity (rendezvous hashing): when
a key rests, only its own requests move to other keys.
"""

from __future__ import annotations

import hashlib
import logging
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, Protocol

from gateway.base.errors import GatewayError, UpstreamError
from gateway.base.ids import find_last4
from gateway.config.records import KeySource

log = logging.getLogger("gateway.keys")

REST_SECONDS: Final = 60.0
"""Seconds for which a key rests that the provider refuses, or limits without naming a time: vendors' limits
are per minute."""
UNAUTHORIZED: Final = 401
"""The status that clouds send when a key has expired."""
_HASH_BYTES: Final = 8
"""Bytes of a hash: enough that no two keys have the same rank."""


class Renewing(Protocol):
    """The background renewal of a key."""

    def renew_early(self, refused: str) -> None:
        """Renew the key soon if it is still the one that was refused."""

    async def replace(self, refused: str, is_over: Callable[[], bool]) -> bool:
        """Return whether the refused key has been replaced.

        Wait for a new key a while, unless the request `is_over`.
        """


@dataclass(slots=True, eq=False, repr=False)
class ProviderKey:
    """One key and its state. A renewed key takes the place of the old one between two requests."""

    secret: str
    """The key; "" if there is none, or while its source has given none."""
    source: KeySource | None = None
    before: str = ""
    """The key before the last renewal: replies to it may still be under way."""
    in_flight: int = 0
    rests_until: float = 0.0
    """Monotonic seconds."""
    problem: str = ""
    """Why the last renewal failed; "" if it succeeded."""
    failed_ms: int = 0
    """When renewals last began to fail, in Unix milliseconds."""
    renewing: Renewing | None = None
    _identity: bytes = field(init=False)

    def __post_init__(self) -> None:
        place = self.source.place if self.source else self.secret
        self._identity = hashlib.sha256(place.encode()).digest()

    @property
    def last4(self) -> str:
        return find_last4(self.secret) or ""

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
        known: dict[KeySource | None, ProviderKey] = {
            one.source: one for one in before if one.source
        }
        self.keys = tuple(
            ProviderKey(secret, source) if (kept := known.get(source)) is None else kept
            for secret, source in zip_longest(secrets or ("",), sources)
        )
        for key, secret in zip(self.keys, secrets, strict=False):
            if secret:  # a known key may have been renewed
                key.renew(secret)
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
        if not isinstance(error, UpstreamError) or not error.refuses_key:
            return False
        if key.secret != sent:  # renewed meanwhile: the new key was not refused
            return True
        if key.renewing is not None and error.upstream_status == UNAUTHORIZED:
            key.renewing.renew_early(sent)
        # An only key is tried in any case, so a rest would change nothing.
        if len(self.keys) > 1:
            seconds = error.rest_seconds or REST_SECONDS
            key.rests_until = time.monotonic() + seconds
            log.warning(
                "provider %s: the key that ends in %s rests for %.0f s: %s",
                *(self._provider, key.last4, seconds, error.cause),
            )
        return True
