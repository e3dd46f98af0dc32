"""The state of commits, and counts of what is noted beside them: refusals, calls to providers, latencies.

Health: when a failure becomes an outage, how it is retried, and its log lines.

Counting is a step in memory. Every few seconds the store adds the sums to the database,
in a transaction of its own, so that no request waits for it and no batch can fail by it.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from gateway.ledger.alert_records import SLOT_MS, UpstreamFailure
from gateway.ledger.serving.queue import CallSum, Observations, RefusalSum, Store
from gateway.times import HOUR_MS

log = logging.getLogger("gateway.ledger")

PROVEN_SECONDS: Final = 1.0
"""How long a commit proves that the next will work: a disk that fills up in between is found by the
requests of this time, which are then lost to their callers and cost nothing."""
BUSY_SECONDS: Final = 1
"""How long a locked database is retried before it counts as an outage: others' writes take less."""


TOLD_SECONDS: Final = 60
"""How long a state that was told is not told again, however often it comes and goes."""

MOST_TOLD: Final = 20
"""Accounts in a log line."""
LOCKED: Final = (
    "another program has locked rows of accounts, whose requests wait; all others go on: %s. Look for"
    " it in pg_stat_activity"
)


class States:
    """Log lines of what comes and goes: one for a state when it begins, and one in a minute at most.

    A state is noted again and again while it lasts. So one that lasts is told in the end.
    """

    def __init__(self, present: str) -> None:
        self.told = present
        self._told_seconds: dict[str, float] = {}

    def note(self, state: str, now_seconds: float, tell: Callable[[], None]) -> None:
        if state == self.told:
            return
        # What is held back here is told by a later note, if the state lasts until then.
        if now_seconds - self._told_seconds.get(state, -math.inf) >= TOLD_SECONDS:
            self.told, self._told_seconds[state] = state, now_seconds
            tell()


class Health:
    """One `note_` for each round of the writer; times are those of the event loop's clock."""

    def __init__(self) -> None:
        self._states = States("works")
        self._locks = States("free")
        self.writable = True
        self.should_pause = False
        """False where the next try may work at once: another program's lock is short."""
        self._busy_since_seconds: float | None = None
        self._worked_seconds = -math.inf

    def is_proven(self, now_seconds: float) -> bool:
        """Return whether commits work, as far as anybody can know without one."""
        return self.writable and now_seconds - self._worked_seconds < PROVEN_SECONDS

    def note_commit(self, now_seconds: float) -> None:
        self._worked_seconds = now_seconds

    def doubt(self) -> None:
        """Take no earlier commit for a proof: the database refused what should have worked."""
        self._worked_seconds = -math.inf

    def note_success(self, now_seconds: float) -> None:
        self.writable = True
        self.should_pause = False
        self._busy_since_seconds = None
        if self._states.told != "works":
            told = partial(log.warning, "the ledger can be written again")
            self._states.note("works", now_seconds, told)

    def note_failure(self, error: Exception, now_seconds: float, *, is_brief: bool = False) -> None:
        self.should_pause = not is_brief
        if not self.should_pause and self._is_brief(now_seconds):
            return
        self.writable = False
        self.doubt()
        told = partial(log.critical, "the ledger cannot be written: %s", error)
        self._states.note("fails", now_seconds, told)

    def note_hang(self, seconds: float, now_seconds: float) -> None:
        self.writable = False
        told = partial(log.error, "a commit has been under way for %s s", seconds)
        self._states.note("fails", now_seconds, told)

    def note_locks(self, accounts: Sequence[str], now_seconds: float) -> None:
        """Note the accounts that cannot be written, because of another program."""
        if accounts:
            told = partial(log.warning, LOCKED, ", ".join(accounts[:MOST_TOLD]))
            self._locks.note("locked", now_seconds, told)
        else:
            told = partial(log.warning, "no account is locked by another program any more")
            self._locks.note("free", now_seconds, told)

    def _is_brief(self, now_seconds: float) -> bool:
        """Return whether the database has been locked for a shorter time than an outage."""
        if self._busy_since_seconds is None:
            self._busy_since_seconds = now_seconds
        return now_seconds - self._busy_since_seconds < BUSY_SECONDS


WRITE_SECONDS: Final = 2.0
"""How long sums wait to be written: a kill loses those of this time."""
CLOSE_SECONDS: Final = 1.0
"""How long a stop tries to write the last sums. Other processes' transactions are short."""
RETRY_SECONDS: Final = 0.05
"""The pause between those tries."""
MAX_SUMS: Final = 4096
"""Sums, refused requests or failures in memory: more come together only while the ledger cannot be
written, and are not counted."""
REFUSED_AT_ONCE: Final = 64
"""Refused requests of an account that are written together. A flood is counted, but not kept one by
one: it must neither take others' place in memory nor keep the database busy."""


COUNTLESS: Final = "refusals, calls to providers and latencies cannot be counted: %s"


class Observer:
    """Only the event loop touches it; the thread gets sums that nothing changes any more."""

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
        """Count a refused request; `named` is the model it asked for, even if nothing has that name."""
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
            # A rejection is kept for whoever looks the request up, and not held against the provider.
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
        # No method of the dictionary or list is called: each call is one of every request.
        sums = self._sums.latencies
        key = (ended_ms // HOUR_MS, account_id, provider, upstream_model)
        if key in sums:
            sums[key] += (first_byte_ms, total_ms)
        elif len(sums) < MAX_SUMS:
            sums[key] = [first_byte_ms, total_ms]
        if self._timer is None:
            self._schedule()

    async def close(self) -> None:
        """Write what is left, unless that takes too long."""
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
        if not self._written.is_set():  # the disk takes its time
            self._schedule()
            return
        if not self._sums:  # `close` wrote them, and this timer comes late
            return
        # Swapped, not copied: the thread reads what nothing changes any more.
        self._under_way, self._sums = self._sums, Observations()
        self._refused.clear()
        self._written.clear()
        self._store.start_observing(self._under_way, report=self._take_over)

    def _take_over(self, report: BaseException | None) -> None:
        """Forget what was written; after a failure count on from it, and try again later."""
        if report is not None:
            self._under_way.add(self._sums)
            self._sums = self._under_way
            told = partial(log.warning, COUNTLESS, report)
            self._states.note("fails", self._loop.time(), told)
            if self._timer is None:
                self._schedule()
        else:
            self._states.note("works", self._loop.time(), lambda: None)
        self._is_failing = report is not None
        self._under_way = Observations()
        self._written.set()
