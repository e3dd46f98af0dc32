"""Tell the holder of a revoked or expired key when it ended; such keys are not kept in memory."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from gateway.api.limits import Bucket
from gateway.errors import InvalidKey, LedgerUnavailable
from gateway.ledger.key_records import EndedKey
from gateway.ledger.serving.ledger import ServingLedger
from gateway.times import format_moment

LOOKUPS_PER_MINUTE: Final = 600
"""For all callers together: made-up keys must not keep the ledger busy."""
LOOKUP_SECONDS: Final = 1.0
"""A ledger that hangs must not hold up the refusal of a wrong key."""


class EndedKeys:
    """Looks up keys that are not in memory, at a limited rate."""

    __slots__ = ("_lookups",)

    def __init__(self) -> None:
        self._lookups = Bucket(LOOKUPS_PER_MINUTE, time.monotonic())

    async def explain(self, ledger: ServingLedger, digest: bytes) -> InvalidKey:
        """Return the refusal of a key, with the time of its end if that can be found."""
        if self._lookups.wait_seconds(1, time.monotonic()) > 0:
            return InvalidKey()
        self._lookups.take(1)
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                ended = await ledger.read_ended_key(digest)
        except (TimeoutError, LedgerUnavailable):
            return InvalidKey()
        return InvalidKey() if ended is None else refuse_ended(ended)


def refuse_ended(key: EndedKey) -> InvalidKey:
    """Make the refusal of a key that has ended."""
    if key.revoked_ms is not None:
        return InvalidKey(_HINT.format(f"was revoked on {format_moment(key.revoked_ms)}"))
    assert key.expires_ms is not None
    return InvalidKey(_HINT.format(f"expired on {format_moment(key.expires_ms)}"))


_HINT: Final = "This key {} UTC. Make another in the console under Keys."
