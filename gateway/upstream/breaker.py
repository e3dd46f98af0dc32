"""Circuit breakers: what failed repeatedly comes last. No I/O.

`ProviderState` has one for each provider, and for each of its models, that failed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

FAILURES: Final = 5
"""Failures in a row that open a breaker. Single 5xx are common at providers that work."""
OPEN_SECONDS: Final = 30.0
"""The pause before a probe, about as long as a server takes to restart: a failed probe costs a
caller."""
INSTANT_SECONDS: Final = 0.1
"""Seconds within which broken replies share one cause: a proxy that restarts breaks many at once."""

BreakerState = Literal["closed", "open", "probing"]


@dataclass(slots=True, eq=False)
class Breaker:
    """Counts failures in a row of a provider or of one of its models. While it is open their routes come last.

        closed ── 5 failures in a row ──> open, 30 s ──> one probe ── it works ──> closed
                                              ^                    └─ it fails ──┘

    Times are seconds of a monotonic clock, passed in.
    """

    failures: int = 0
    """Failures in a row, up to now."""
    # A monotonic clock may begin at 0, and the first failure has to count.
    _failed_at: float = -INSTANT_SECONDS
    _open_until: float = 0.0
    _probing: bool = False

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

    def begin(self) -> bool:
        """Note that a request goes out; return whether it is the probe of an open breaker."""
        is_probe = self.is_open and not self._probing
        self._probing |= is_probe
        return is_probe

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


UNBROKEN: Final = Breaker()
"""The breaker of a model that never failed."""
