"""One timer for everything in flight: deadlines, silence, callers that left.

A timer per read would cost more than the read itself. Instead each request keeps its deadlines, and
one tick looks at all of them; deadlines of seconds tolerate a tenth.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from gateway.errors import GatewayError, InternalError
from gateway.tasks import STALL_SECONDS

log = logging.getLogger("gateway.ticker")

TICK_SECONDS: Final = 0.1
"""How often deadlines and callers are looked at; the deadlines themselves are seconds."""


class Timed(Protocol):
    """Something in flight that has deadlines."""

    def tick(self, now: float) -> None:
        """Check the deadlines against `loop.time()`."""

    def stop(self, error: GatewayError) -> None:
        """End with `error`: the gateway is shutting down, or `tick` failed."""


class Ticker:
    """The timer. It runs only while something is in flight."""

    __slots__ = ("_due", "_handle", "_skipped", "_timed")

    def __init__(self) -> None:
        self._timed: set[Timed] = set()
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._skipped = False

    def add(self, timed: Timed) -> None:
        self._timed.add(timed)
        if self._handle is None:
            self._schedule()

    def remove(self, timed: Timed) -> None:
        self._timed.discard(timed)

    def stop_all(self, error: GatewayError) -> None:
        """End everything in flight with `error`."""
        for timed in tuple(self._timed):
            timed.stop(error)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + TICK_SECONDS
        self._handle = loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._handle = None
        now = asyncio.get_running_loop().time()
        if now - self._due > STALL_SECONDS and not self._skipped:
            # The loop stood: what others did meanwhile is read first, before a deadline blames them.
            self._skipped = True
            self._schedule()
            return
        self._skipped = False
        for timed in tuple(self._timed):
            try:
                timed.tick(now)
            except Exception:
                log.exception("a request's deadlines could not be checked; it is ended")
                self.remove(timed)
                timed.stop(InternalError())
        if self._timed:
            self._schedule()
