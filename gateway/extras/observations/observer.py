"""Counts of refusals, calls to providers and latencies, which are written apart from the books.

Counting happens in memory. Every few seconds the store adds the sums to the database in a separate
transaction. So no request waits for it, and no batch can fail because of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from gateway.base.progress import States
from gateway.base.times import HOUR_MS
from gateway.extras.observations.records import SLOT_MS, UpstreamFailure
from gateway.ledger.base import AsideEnd

log = logging.getLogger("gateway.ledger")

RefusalKey = tuple[int, int | None, str, str]
"""Hour, account id, code, model."""
RefusedRow = tuple[str, int, int, str, str, str]
"""Request id, time, account id, key id, code, named model."""
CallKey = tuple[int, str, str]
"""Slot, provider, upstream model."""
LatencyKey = tuple[int, int, str, str]
"""Hour, account id, provider, upstream model."""
MAX_TIMES: Final = 65_536
"""The most durations kept per group: while the ledger cannot be written, more are dropped."""


@dataclass(slots=True)
class RefusalSum:
    count: int = 0
    last_ms: int = 0
    last_request_id: str = ""

    def add(self, other: RefusalSum) -> None:
        """Add what came later."""
        self.count += other.count
        self.last_ms, self.last_request_id = other.last_ms, other.last_request_id


@dataclass(slots=True)
class CallSum:
    calls: int = 0
    failures: int = 0
    last: UpstreamFailure | None = None

    def add(self, other: CallSum) -> None:
        """Add what came later."""
        self.calls += other.calls
        self.failures += other.failures
        self.last = other.last or self.last


@dataclass(slots=True)
class Observations:
    """Sums that are not written yet."""

    refusals: dict[RefusalKey, RefusalSum] = field(default_factory=dict)
    refused: list[RefusedRow] = field(default_factory=list)
    calls: dict[CallKey, CallSum] = field(default_factory=dict)
    failures: list[UpstreamFailure] = field(default_factory=list)
    latencies: dict[LatencyKey, list[int]] = field(default_factory=dict)
    """First byte and total of each complete reply, one behind the other, in ms."""

    def __bool__(self) -> bool:
        return bool(self.refusals or self.calls or self.latencies)

    def add(self, later: Observations) -> None:
        # No more than `MAX_SUMS`, as each failed write of a long outage adds some.
        for key, refusal in later.refusals.items():
            if key in self.refusals or len(self.refusals) < MAX_SUMS:
                self.refusals.setdefault(key, RefusalSum()).add(refusal)
        self.refused += later.refused[: MAX_SUMS - len(self.refused)]
        for slot, call in later.calls.items():
            if slot in self.calls or len(self.calls) < MAX_SUMS:
                self.calls.setdefault(slot, CallSum()).add(call)
        self.failures += later.failures[: MAX_SUMS - len(self.failures)]
        for place, times in later.latencies.items():
            kept = self.latencies.get(place, [])
            if len(kept) < MAX_TIMES and (kept or len(self.latencies) < MAX_SUMS):
                self.latencies[place] = kept + times


WRITE_SECONDS: Final = 2.0
"""How long sums wait to be written. A kill loses the sums of this time."""
CLOSE_SECONDS: Final = 1.0
"""How long a stop tries to write the last sums: longer than other processes' transactions."""
RETRY_SECONDS: Final = 0.05
"""Seconds between two tries to write the last sums: other processes' transactions take about as long."""
MAX_SUMS: Final = 4096
"""Sums, refused requests or failures in memory. More pile up only while the ledger cannot be written;
they are dropped."""
REFUSED_AT_ONCE: Final = 64
"""Refused requests of an account that are written together. A flood is counted but not kept one by one:
it must not displace other accounts' in memory or keep the database busy."""
COUNTLESS: Final = "refusals, calls to providers and latencies cannot be counted: %s"


class Observer:
    """Only the event loop uses the counts. The thread gets sums that no longer change."""

    def __init__(
        self, write: Callable[[Observations, AsideEnd], None], clock: Callable[[], int]
    ) -> None:
        """`write` begins to write sums, and reports as `Store.start_aside` does."""
        self._start_writing = write
        self._clock = clock
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
        self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write)

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
        self._start_writing(self._under_way, self._take_over)

    def _take_over(self, report: BaseException | None) -> None:
        """Forget the written sums; after a failure add them back and try again later."""
        now_seconds = asyncio.get_running_loop().time()
        if report is not None:
            self._under_way.add(self._sums)
            self._sums = self._under_way
            self._states.note("fails", now_seconds, log.warning, COUNTLESS, report)
            if self._timer is None:
                self._schedule()
        else:
            self._states.note("works", now_seconds, lambda: None)
        self._is_failing = report is not None
        self._under_way = Observations()
        self._written.set()
