"""Counts what operators ask about beside the books: refusals, and calls to providers.

Counting is a step in memory. Every few seconds the store adds the sums to the database,
in a transaction of its own, so that no request waits for it and no batch can fail by it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from gateway.ledger.alert_records import SLOT_MS, UpstreamFailure
from gateway.ledger.serving.health import States
from gateway.ledger.serving.store import CallSum, Observations, RefusalSum, Store
from gateway.times import HOUR_MS

log = logging.getLogger("gateway.ledger")

WRITE_SECONDS: Final = 2.0
"""How long sums wait to be written: a kill loses those of this time."""
CLOSE_SECONDS: Final = 1.0
"""How long a stop tries to write the last sums. Other processes' transactions are short."""
RETRY_SECONDS: Final = 0.05
"""The pause between those tries."""
MAX_SUMS: Final = 4096
"""Sums, or failures, in memory: more come together only while the ledger cannot be written, and are not counted."""


COUNTLESS: Final = "refusals and calls to providers cannot be counted: %s"


class Observer:
    """Only the event loop touches it; the thread gets sums that nothing changes any more."""

    def __init__(self, store: Store, clock: Callable[[], int]) -> None:
        self._store = store
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._sums = Observations()
        self._under_way = Observations()
        self._timer: asyncio.TimerHandle | None = None
        self._written = asyncio.Event()
        self._written.set()
        self._is_failing = False
        self._states = States("works")

    def note_refusal(self, account_id: int | None, code: str, model: str, request_id: str) -> None:
        now_ms = self._clock()
        key = (now_ms // HOUR_MS, account_id, code, model)
        sums = self._sums.refusals.get(key)
        if sums is None:
            if len(self._sums.refusals) >= MAX_SUMS:
                return
            sums = self._sums.refusals[key] = RefusalSum()
        sums.count += 1
        sums.last_ms, sums.last_request_id = now_ms, request_id
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
            sums.failures += 1
            sums.last = failure
            if len(self._sums.failures) < MAX_SUMS:
                self._sums.failures.append(failure)
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
