"""Deadlines for providers and callers. Time in which this process did not run does not count.

After a stop, a sleep of the machine or a blocked loop, bytes that came in time are read late. `Clock`
leaves such time out; `Ticker` has one clock for all requests in flight, `limit_seconds` one for a single
wait. Keep-alive comments are due in real time, so they use the loop's own clock.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self

from gateway.base.errors import GatewayError, InternalError
from gateway.base.turns import find_turns

log = logging.getLogger("gateway.deadlines")

TICK_SECONDS: Final = 0.1
"""How often deadlines and callers are looked at; the deadlines themselves are seconds."""
STEP_SECONDS: Final = 0.25
"""Seconds between two looks of a single wait at its deadline: a time in which the process did not run shows
only as a late timer, and one shorter than a step may not show."""
LEAST_SECONDS: Final = 0.01
"""Seconds of the least pause between two such looks: with less, a wait whose clock is held up would spin."""
LATE_SECONDS: Final = 0.1
"""The most of a timer's delay that counts: a timer that is later was held up."""
PAUSE_SECONDS: Final = 1.0
"""After a longer delay all quiet times begin anew: others may have given up sending meanwhile."""
BEHIND_SECONDS: Final = 5.0
"""The most time that is not counted while the loop catches up. Beyond it the clock goes on, so a loop that is
always late still enforces deadlines."""
MAX_STRETCH: Final = 4
"""The longest quiet time, as a multiple of its length, however often it begins anew."""


class Clock:
    """Counts the time in which this process ran, as one recurring timer of its owner sees it.

    After a late timer the clock stands still until the timer fires in time and no bytes that were read
    wait for their turn. So no deadline passes while the answer may already lie in a socket.
    """

    __slots__ = ("_due", "_has_work", "_held", "_is_behind", "_resumed", "now", "seconds")

    def __init__(self, has_work: Callable[[], bool] = lambda: find_turns().has_work()) -> None:
        """`has_work`: whether bytes that were read wait for their turn."""
        self.seconds = 0.0
        self.now = 0.0
        """The loop's time when the clock was last moved."""
        self._has_work = has_work
        self._due = 0.0
        self._held = 0.0
        """Time in which the process ran, not counted yet."""
        self._is_behind = False
        self._resumed = -math.inf
        """The end of the last pause."""

    @property
    def next_seconds(self) -> float:
        """The clock's time at its next move. A wait that begins now is dated by it, so it never ends early."""
        return self.seconds + self._held + self._due - self.now

    def expect(self, now: float, seconds: float) -> float:
        """Return the loop's time at which the owner's timer is due; it then calls `move`."""
        self.now, self._due = now, now + seconds
        return self._due

    def move(self, now: float) -> None:
        """Count the time since the last call: the timer has fired."""
        late = now - self._due
        self._held += min(now, self._due + LATE_SECONDS) - self.now
        self.now = self._due = now
        if late > PAUSE_SECONDS:
            self._resumed = self.seconds + self._held
        self._is_behind = late > LATE_SECONDS or (self._is_behind and self._has_work())
        if not self._is_behind or self._held >= BEHIND_SECONDS:
            self.seconds += self._held
            self._held = 0.0

    def lasted(self, since: float) -> float:
        """Return how long it has been quiet since a time of this clock, or since the last pause."""
        whole = self.seconds - since
        return max(min(whole, self.seconds - self._resumed), whole / MAX_STRETCH)


class limit_seconds:  # noqa: N801 - like asyncio.timeout
    """Raise TimeoutError after a quiet time, which `renew` begins anew, or after `total` seconds."""

    def __init__(self, seconds: float, total: float = math.inf) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = asyncio.timeout(None)
        self._clock = Clock()
        self._seconds = seconds
        self._total = total
        self._since = 0.0
        self._handle: asyncio.TimerHandle | None = None

    def renew(self) -> None:
        """Begin the quiet time anew: something came."""
        self._since = self._clock.next_seconds

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        self._wait(self._loop.time(), min(self._seconds, self._total))
        return self

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

    def _wait(self, now: float, left: float) -> None:
        due = self._clock.expect(now, min(max(left, LEAST_SECONDS), STEP_SECONDS))
        self._handle = self._loop.call_at(due, self._check)

    def _check(self) -> None:
        clock, now = self._clock, self._loop.time()
        clock.move(now)
        left = min(self._seconds - clock.lasted(self._since), self._total - clock.seconds)
        if left <= 0:
            self._limit.reschedule(now)
        else:
            self._wait(now, left)


@dataclass(slots=True, eq=False)
class Life:
    """A request in flight, for the code that sends it and the code that ends it. It charges nobody."""

    ended_by: Exception | None = None
    """The first error that ended the request: a deadline, a caller that left, a stop."""
    cut: Callable[[Exception], None] | None = None
    """Ends the connection by which the request was sent; None while there is none."""
    caller_gone: bool = False

    def check(self) -> None:
        """Raise what ended the request, if something did."""
        if self.ended_by is not None:
            raise self.ended_by

    def stop(self, error: Exception) -> None:
        """End the request with `error`; without a connection it ends before anything is sent."""
        if self.ended_by is None:
            self.ended_by = error
        # The connection keeps its first error, too, so the logged cause is the first one.
        if self.cut is not None:
            self.cut(error)

    def note_sent(self) -> None:
        """Note that a provider gets the request."""

    def note_declined(self) -> None:
        """Note that the provider declined it, so that it costs nothing."""


class Timed(Protocol):
    """Something in flight that has deadlines."""

    @property
    def life(self) -> Life:
        """Stopped when the gateway shuts down, or `tick` failed."""

    def tick(self) -> None:
        """Check the deadlines, by the ticker's clock."""


class Ticker:
    """The timer for all deadlines. It runs only while something is in flight."""

    __slots__ = ("_handle", "_timed", "clock", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._timed: set[Timed] = set()
        self.clock = Clock()
        self._handle: asyncio.TimerHandle | None = None

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
            timed.life.stop(error)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _schedule(self) -> None:
        due = self.clock.expect(self.loop.time(), TICK_SECONDS)
        self._handle = self.loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._handle = None
        self.clock.move(self.loop.time())
        for timed in tuple(self._timed):
            try:
                timed.tick()
            # One request's bug must not stop the timer of all others.
            except Exception:
                log.exception("a request's deadlines could not be checked; it is ended")
                self.remove(timed)
                timed.life.stop(InternalError())
        if self._timed:
            self._schedule()
