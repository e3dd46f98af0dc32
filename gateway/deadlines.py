"""Deadlines of others: one timer for all requests in flight, and limits of single waits."""

from __future__ import annotations

import asyncio
import logging
from types import TracebackType
from typing import Final, Protocol

from gateway.errors import GatewayError, InternalError

log = logging.getLogger("gateway.deadlines")

TICK_SECONDS: Final = 0.1
"""How often deadlines and callers are looked at; the deadlines themselves are seconds."""
STALL_SECONDS: Final = 0.1
"""How late the event loop may be before a missed deadline counts as the loop's own fault."""
STEP_SECONDS: Final = 0.25
"""How often a wait checks whether the loop was blocked."""
MAX_STRETCH: Final = 4
"""The most a wait takes, as a multiple of its length, however often the loop is blocked."""


class limit_seconds:  # noqa: N801 - like asyncio.timeout
    """Raise TimeoutError after this many seconds, not counting time in which the loop was blocked.

    So bytes that arrived in time are handled before the time-out could blame their sender.
    """

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(None)
        self._left = seconds
        self._last = self._loop.time() + MAX_STRETCH * seconds
        self._handle: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self._wait()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._handle is not None
        self._handle.cancel()
        self._handle = None
        await self._limit.__aexit__(kind, error, traceback)

    def _wait(self) -> None:
        step = min(max(self._left, 0.0), STEP_SECONDS) or STALL_SECONDS
        self._handle = self._loop.call_later(step, self._check, step, self._loop.time() + step)

    def _check(self, step: float, due: float) -> None:
        self._left -= step
        now = self._loop.time()
        # A late timer means that the loop was blocked. What arrived meanwhile is handled after this
        # call, so the wait goes on for a step, in which it can still succeed.
        stood = now - due >= STALL_SECONDS
        if now >= self._last or (self._left <= 0 and not stood):
            self._limit.reschedule(now)
        else:
            self._wait()


class Timed(Protocol):
    """Something in flight that has deadlines."""

    def tick(self, now: float) -> None:
        """Check the deadlines against `loop.time()`."""

    def fail(self, error: Exception) -> None:
        """End with `error`: the gateway is shutting down, or `tick` failed."""


class Ticker:
    """The timer for all deadlines. It runs only while something is in flight."""

    __slots__ = ("_due", "_handle", "_skipped", "_timed", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._timed: set[Timed] = set()
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._skipped = False

    def add(self, timed: Timed) -> None:
        self._timed.add(timed)
        if self._handle is None:
            self._schedule()

    def remove(self, timed: Timed) -> None:
        # The timer runs on for one tick, as the next request usually comes before then.
        self._timed.discard(timed)

    def stop_all(self, error: GatewayError) -> None:
        """End everything in flight with `error`."""
        # A copy, as ended ones remove themselves.
        for timed in tuple(self._timed):
            timed.fail(error)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _schedule(self) -> None:
        self._due = self.loop.time() + TICK_SECONDS
        self._handle = self.loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._handle = None
        now = self.loop.time()
        if now - self._due > STALL_SECONDS and not self._skipped:
            # The loop was blocked. Bytes that arrived meanwhile are read before any deadline is checked.
            self._skipped = True
            self._schedule()
            return
        self._skipped = False
        for timed in tuple(self._timed):
            try:
                timed.tick(now)
            # One request's bug must not stop the timer of all others.
            except Exception:
                log.exception("a request's deadlines could not be checked; it is ended")
                self.remove(timed)
                timed.fail(InternalError())
        if self._timed:
            self._schedule()
