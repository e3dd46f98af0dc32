"""The circuit breaker of one provider: who fails again and again is left alone a while. No I/O.

    closed ── 5 failures in a row ──> open, 30 s ──> one probe ── it works ──> closed
                                          ^                    └─ it fails ──┘

Times are seconds of a monotonic clock, handed in.
"""

from __future__ import annotations

import math
from typing import Final, Literal

FAILURES: Final = 5
OPEN_SECONDS: Final = 30.0

BreakerState = Literal["closed", "open", "probing"]


class Breaker:
    __slots__ = ("_failures", "_open_until", "_probing")

    def __init__(self) -> None:
        self._failures = 0
        self._open_until = 0.0
        self._probing = False

    @property
    def is_open(self) -> bool:
        return self._failures >= FAILURES

    def tell(self, now: float) -> tuple[BreakerState, int]:
        """For people: how it stands, and the whole seconds until a request may try again.

        `probing` is a provider's from the moment on when the next request will be its probe.
        """
        if not self.is_open:
            return "closed", 0
        left = math.ceil(self._open_until - now)
        return ("open", left) if left > 0 else ("probing", 0)

    def wait_seconds(self, now: float) -> float:
        """How long a request should stay away; 0 when it may go, perhaps as the probe."""
        if not self.is_open:
            return 0.0
        if now < self._open_until:
            return self._open_until - now
        return OPEN_SECONDS if self._probing else 0.0

    def begin(self) -> bool:
        """A request goes out. Whether it is the probe, whose end must be told in any case."""
        if self.is_open:
            self._probing = True
        return self.is_open

    def succeed(self) -> bool:
        """The provider answered. Whether this closed the breaker."""
        was_open = self.is_open
        self._failures = 0
        self._probing = False
        return was_open

    def fail(self, now: float) -> bool:
        """The provider failed. Whether this opened the breaker."""
        was_open = self.is_open
        self._failures += 1
        self._probing = False
        if self.is_open:
            self._open_until = now + OPEN_SECONDS
        return self.is_open and not was_open

    def forget(self) -> None:
        """The probe ended without saying anything about the provider."""
        self._probing = False
