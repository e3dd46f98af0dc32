"""The state of commits; and counts of refusals, calls to providers and latencies, written apart from them.

Health: when a failure becomes an outage, how it is retried, and its log lines.

Counting happens in memory. Every few seconds the store adds the sums to the database in a separate
transaction. So no request waits for it, and no batch can fail because of it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from gateway.base.times import HOUR_MS
from gateway.ledger.observation_records import SLOT_MS, UpstreamFailure
from gateway.ledger.serving.queue import CallSum, Observations, RefusalSum, Store

log = logging.getLogger("gateway.ledger")

PROVEN_SECONDS: Final = 1.0
"""How long a commit counts as proof that the next will work. If the disk fills up in this time, the
requests of this time fail and cost nothing."""
BUSY_SECONDS: Final = 1
"""How long a locked database is retried before it counts as an outage. Other programs' writes take
less."""


REPEAT_SECONDS: Final = 60
"""How long a logged state is not logged again, however often it comes and goes."""


class States:
    """Log lines for states that come and go: one when a state begins, and one in a minute at most.

    A state is noted repeatedly while it lasts, so a lasting state is always logged in the end.
    """

    def __init__(self, present: str) -> None:
        self.logged = present
        self._logged_seconds: dict[str, float] = {}

    def note(
        self, state: str, now_seconds: float, tell: Callable[..., object], *words: object
    ) -> None:
        """Call `tell` with the words if it is time to."""
        if state == self.logged:
            return
        # A later note logs a state suppressed here, if it lasts until then.
        if now_seconds - self._logged_seconds.get(state, -math.inf) >= REPEAT_SECONDS:
            self.logged, self._logged_seconds[state] = state, now_seconds
            tell(*words)


class Health:
    """The writer calls a `note_` method after each round. Times are seconds of the event loop's clock."""

    def __init__(self) -> None:
        self._states = States("works")
        self.writable = True
        self.should_pause = False
        """False if the next try may work at once: other programs' locks are short."""
        self._busy_since_seconds: float | None = None
        self._worked_seconds = -math.inf

    def is_proven(self, now_seconds: float) -> bool:
        """Return whether commits work, as far as that is known."""
        return self.writable and now_seconds - self._worked_seconds < PROVEN_SECONDS

    def note_commit(self, now_seconds: float) -> None:
        self._worked_seconds = now_seconds

    def doubt(self) -> None:
        """Stop trusting earlier commits: the database refused a commit that should have worked."""
        self._worked_seconds = -math.inf

    def note_success(self, now_seconds: float) -> None:
        self.writable = True
        self.should_pause = False
        self._busy_since_seconds = None
        self._states.note("works", now_seconds, log.warning, "the ledger can be written again")

    def note_failure(self, error: Exception, now_seconds: float, *, is_brief: bool = False) -> None:
        self.should_pause = not is_brief
        if not self.should_pause and self._is_brief(now_seconds):
            return
        self.writable = False
        self.doubt()
        words = "the ledger cannot be written: %s"
        self._states.note("fails", now_seconds, log.critical, words, error)

    def note_hang(self, seconds: float, now_seconds: float) -> None:
        self.writable = False
        words = "a commit has been under way for %s s"
        self._states.note("fails", now_seconds, log.error, words, seconds)

    def _is_brief(self, now_seconds: float) -> bool:
        """Return whether the database has been locked for a shorter time than an outage."""
        if self._busy_since_seconds is None:
            self._busy_since_seconds = now_seconds
        return now_seconds - self._busy_since_seconds < BUSY_SECONDS


WRITE_SECONDS: Final = 2.0
"""How long sums wait to be written. A kill loses the sums of this time."""
CLOSE_SECONDS: Final = 1.0
"""How long a stop tries to write the last sums: longer than other processes' transactions."""
RETRY_SECONDS: Final = 0.05
"""The pause between two tries to write the last sums."""
MAX_SUMS: Final = 4096
"""Sums, refused requests or failures in memory. More pile up only while the ledger cannot be written;
they are dropped."""
REFUSED_AT_ONCE: Final = 64
"""Refused requests of an account that are written together. A flood is counted but not kept one by one:
it must not displace other accounts' in memory or keep the database busy."""


COUNTLESS: Final = "refusals, calls to providers and latencies cannot be counted: %s"


class Observer:
    """Only the event loop uses the counts. The thread gets sums that no longer change."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._sums = Observations()
        self._refused = Counter[int]()
        self._under_way = Observations()
        self._timer: asyncio.TimerHandle | None = None
        self._written = asyncio.Event()
        self._written.set()
        self._is_failing = False
        self._states = States("works")

    def note_refusal(
        self,
        account_id: int | None,
        code: str,
        model: str,
        request_id: str,
        *,
        named: str = "",
        key_id: str = "",
    ) -> None:
        """Count a refused request. `named` is the model it names, whether that exists or not."""
        now_ms = self._clock()
        key = (now_ms // HOUR_MS, account_id, code, model)
        sums = self._sums.refusals.get(key)
        if sums is None:
            if len(self._sums.refusals) >= MAX_SUMS:
                return
            sums = self._sums.refusals[key] = RefusalSum()
        sums.count += 1
        sums.last_ms, sums.last_request_id = now_ms, request_id
        refused = self._sums.refused
        if account_id is not None and len(refused) < MAX_SUMS:
            self._refused[account_id] += 1
            if self._refused[account_id] <= REFUSED_AT_ONCE:
                refused.append((request_id, now_ms, account_id, key_id, code, named))
        if self._timer is None:
            self._schedule()

    def note_upstream_call(
        self, provider: str, upstream_model: str, failure: UpstreamFailure | None
    ) -> None:
        key = (self._clock() // SLOT_MS, provider, upstream_model)
        sums = self._sums.calls.get(key)
        if sums is None:
            if len(self._sums.calls) >= MAX_SUMS:
                return
            sums = self._sums.calls[key] = CallSum()
        sums.calls += 1
        if failure is not None:
            # A rejection is kept for look-ups of the request and does not count as the provider's
            # failure.
            if not failure.rejected:
                sums.failures += 1
                sums.last = failure
            if len(self._sums.failures) < MAX_SUMS:
                self._sums.failures.append(failure)
        if self._timer is None:
            self._schedule()

    def note_latency(
        self,
        account_id: int,
        provider: str,
        upstream_model: str,
        ended_ms: int,
        *,
        first_byte_ms: int,
        total_ms: int,
    ) -> None:
        # No method of a dictionary or list is called: this runs for every request.
        sums = self._sums.latencies
        key = (ended_ms // HOUR_MS, account_id, provider, upstream_model)
        if key in sums:
            sums[key] += (first_byte_ms, total_ms)
        elif len(sums) < MAX_SUMS:
            sums[key] = [first_byte_ms, total_ms]
        if self._timer is None:
            self._schedule()

    async def close(self) -> None:
        """Write the remaining sums, unless that takes too long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._written.wait()
                while self._sums:
                    self._write()
                    await self._written.wait()
                    await asyncio.sleep(RETRY_SECONDS if self._is_failing else 0)
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        self._timer = self._loop.call_later(WRITE_SECONDS, self._write)

    def _write(self) -> None:
        self._timer = None
        if not self._written.is_set():  # the disk is slow
            self._schedule()
            return
        if not self._sums:  # `close` has written the sums already
            return
        # Swapped, not copied: the thread gets an object that no longer changes.
        self._under_way, self._sums = self._sums, Observations()
        self._refused.clear()
        self._written.clear()
        self._store.start_observing(self._under_way, report=self._take_over)

    def _take_over(self, report: BaseException | None) -> None:
        """Forget the written sums; after a failure add them back and try again later."""
        if report is not None:
            self._under_way.add(self._sums)
            self._sums = self._under_way
            self._states.note("fails", self._loop.time(), log.warning, COUNTLESS, report)
            if self._timer is None:
                self._schedule()
        else:
            self._states.note("works", self._loop.time(), lambda: None)
        self._is_failing = report is not None
        self._under_way = Observations()
        self._written.set()
