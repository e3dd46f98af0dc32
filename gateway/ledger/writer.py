"""The one writer: it owns the connection, and everything that queued up is its next batch.

Only the event loop touches the queue and the memory; only the connection's thread touches SQLite.
Between a commit's report and the answers to who waits for it nothing is awaited, so memory is
never seen half updated.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Container
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Final

import aiosqlite

from gateway.errors import GatewayError, InternalError, LedgerUnavailable
from gateway.ledger.base import Hold
from gateway.ledger.batch import MAX_ITEMS, Item
from gateway.ledger.changes import ChangeFeed
from gateway.ledger.hop import Report, is_busy, run_hop
from gateway.ledger.memory import Memory, drop_hold
from gateway.ledger.thread import run_on_thread
from gateway.ledger.wal import ALARM_BYTES, WalKeeper

log = logging.getLogger("gateway.ledger")

LINGER_SECONDS: Final = 0.005
"""An admission nobody waits for may wait for its settlement: a fast reply is then one commit."""

POLL_SECONDS: Final = 0.25
"""Other processes' commits are seen within this, and a batch."""

EXIT_HANGING: Final = 1

RETRY_SECONDS: Final = 0.2

BUSY_MS: Final = 5
"""SQLite's own wait for another process's transaction. It backs off to 100 ms between looks, and
an operator's script that writes in a loop then keeps the server out for seconds: so the server
waits shortly and looks again at once."""

BUSY_SECONDS: Final = 1
"""How long that goes on before it is an outage."""


class Writer:
    """Commits what is added, in order, and keeps memory equal to what was committed."""

    def __init__(
        self,
        database: aiosqlite.Connection,
        memory: Memory,
        feed: ChangeFeed,
        wal: WalKeeper,
        *,
        clock: Callable[[], int],
        commit_seconds: float,
    ) -> None:
        self.writable = True
        self.closed = False
        self.ended = asyncio.Event()
        """Nothing will be committed any more: after `close`, or when the writer died of a bug."""
        self._database = database
        self._memory = memory
        self._feed = feed
        self._wal = wal
        self._alarmed = False
        self._clock = clock
        self._commit_seconds = commit_seconds
        self._loop = asyncio.get_running_loop()
        self._queue: dict[Hold, None] = {}
        self._wake = asyncio.Event()
        self._linger: asyncio.TimerHandle | None = None
        self._polled_seconds = self._loop.time()
        self._give_up_seconds: float | None = None
        self._busy_since_seconds: float | None = None
        self._pause = False
        self._waiting: list[asyncio.Future[None]] = []
        """For a look at what others committed; in `_looking` once that is under way."""
        self._looking: list[asyncio.Future[None]] = []

    def add(self, hold: Hold) -> None:
        """Queue what is new of this hold: its row, its settlement, or both."""
        self._queue[hold] = None
        if self._linger is None:
            self._linger = self._loop.call_later(LINGER_SECONDS, self._wake.set)

    def hurry(self) -> None:
        """Someone waits: commit as soon as the batch under way is done."""
        self._wake.set()

    async def refresh(self) -> None:
        """Return once other connections' commits until now are in memory."""
        if not self.closed:
            seen = self._loop.create_future()
            self._waiting.append(seen)
            self._wake.set()
            await seen

    def find(self, request_id: str) -> Hold | None:
        """The hold of that request while something of it is not committed."""
        return next((one for one in self._queue if one.admission.request_id == request_id), None)

    def close(self) -> None:
        """Let `run` end once all is committed, or was out of order for `commit_seconds`."""
        self._give_up_seconds = self._loop.time() + self._commit_seconds
        self._wake.set()

    async def run(self) -> None:
        try:
            while not self._is_finished():
                await self._sleep()
                self._absorb(await self._hop())
        finally:
            self._end()

    def _is_finished(self) -> bool:
        if self._give_up_seconds is None:
            return False
        return not self._queue or (not self.writable and self._loop.time() >= self._give_up_seconds)

    async def _sleep(self) -> None:
        """Until there is something to commit, to look for or to try again."""
        if self._pause:
            await asyncio.sleep(RETRY_SECONDS)
        elif not self._wake.is_set():
            timer = self._loop.call_later(POLL_SECONDS, self._wake.set)
            await self._wake.wait()
            timer.cancel()
        self._wake.clear()
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    async def _hop(self) -> Report:
        holds = islice(self._queue, MAX_ITEMS)
        items = [Item(hold, not hold.recorded, hold.settlement) for hold in holds]
        now_seconds = self._loop.time()
        feed = wal = None
        is_due = not items or now_seconds - self._polled_seconds >= POLL_SECONDS
        if is_due or self._waiting:
            self._polled_seconds = now_seconds
            self._looking += self._waiting
            self._waiting = []
            feed, wal = self._feed, self._wal
        hop = partial(run_hop, feed=feed, items=items, now_ms=self._clock(), wal=wal)
        visit = self._loop.create_task(run_on_thread(self._database, hop))
        while not visit.done():
            await asyncio.wait((visit,), timeout=self._commit_seconds)
            if visit.done():
                break
            self._note_hang({item.hold for item in items})
            if self._give_up_seconds is not None and self._loop.time() >= self._give_up_seconds:
                log.critical("a commit hangs, and so would the stop: leaving at once")
                os._exit(EXIT_HANGING)
        return visit.result()

    def _note_hang(self, under_way: Container[Hold]) -> None:
        """A commit that neither works nor fails (a frozen disk): nobody else waits behind it.

        What is in it has no known end yet, so whoever waits for that waits on.
        """
        if self.writable:
            log.error("a commit has been under way for %s s", self._commit_seconds)
        self.writable = False
        self._expire(under_way)

    def _absorb(self, report: Report) -> None:
        """Take over what was committed. Not a coroutine, on purpose: nothing comes in between."""
        if report.snapshot is not None:
            self._memory.apply(report.snapshot)
        self._memory.assign(report.balances_nano, report.spent_nano)
        if report.polled:
            _let_go(self._looking)
        for item in report.done:
            self._finish(item)
        for item, error in report.refused:
            self._refuse(item, error)
        self._note_health(report.unavailable)
        self._note_wal(report.wal_bytes)
        if report.unavailable is not None:
            self._wake.set()
            self._expire()
        elif len(report.done) + len(report.refused) == MAX_ITEMS:
            self._wake.set()

    def _finish(self, item: Item) -> None:
        hold = item.hold
        hold.recorded = True
        _resolve(hold.admitted)
        if item.settlement is not None:
            drop_hold(hold)
            _resolve(hold.settled)
        if hold.settlement is item.settlement:
            del self._queue[hold]

    def _refuse(self, item: Item, error: Exception) -> None:
        """The item itself is bad: it alone fails, and what it held is free again."""
        hold = item.hold
        log.error("request %s: the ledger refused it: %s", hold.admission.request_id, error)
        del self._queue[hold]
        drop_hold(hold)
        if hold.settled is None:
            hold.settled = self._loop.create_future()
        _fail(hold.admitted, InternalError())
        _fail(hold.settled, InternalError())

    def _note_health(self, error: sqlite3.Error | None) -> None:
        is_outage = error is not None and not self._is_worth_waiting(error)
        if is_outage and self.writable:
            log.error("the ledger cannot be written: %s", error)
        elif error is None and not self.writable:
            log.warning("the ledger can be written again")
        if error is None or is_outage:
            self.writable = error is None
        if error is None:
            self._busy_since_seconds = None
        self._pause = error is not None and not is_busy(error)

    def _note_wal(self, size: int | None) -> None:
        """Sound the alarm once when the log has grown too large, and again if it comes back."""
        if size is None:
            return
        if size >= ALARM_BYTES and not self._alarmed:
            log.warning(
                "the write-ahead log has grown to %d MiB: some program keeps reading the database",
                size >> 20,
            )
        self._alarmed = size >= ALARM_BYTES

    def _is_worth_waiting(self, error: sqlite3.Error) -> bool:
        if not is_busy(error):
            return False
        now_seconds = self._loop.time()
        if self._busy_since_seconds is None:
            self._busy_since_seconds = now_seconds
        return now_seconds - self._busy_since_seconds < BUSY_SECONDS

    def _expire(self, but: Container[Hold] = ()) -> None:
        """Nobody waits longer than `commit_seconds`; what was not delivered is not charged."""
        oldest_seconds = self._loop.time() - self._commit_seconds
        for hold in self._queue:
            if hold.waiting_since_seconds > oldest_seconds or hold in but:
                continue
            _fail(hold.admitted, LedgerUnavailable(should_retry=False))
            if _fail(hold.settled, LedgerUnavailable(should_retry=False)):
                _withdraw(hold)

    def _end(self) -> None:
        self.closed = True
        self.ended.set()
        self.writable = False
        _let_go(self._waiting)
        _let_go(self._looking)
        for hold in self._queue:
            _fail(hold.admitted, LedgerUnavailable(should_retry=False))
            _fail(hold.settled, LedgerUnavailable(should_retry=False))
            log.error("request %s: the ledger closed before it", hold.admission.request_id)


def _let_go(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        _resolve(waiter)
    waiters.clear()


def _withdraw(hold: Hold) -> None:
    """Of a JSON reply nothing was delivered: its charge becomes a void. A stream's stays."""
    settlement = hold.settlement
    if settlement is None or hold.admission.stream or not settlement.is_posted:
        return
    hold.settlement = replace(settlement, outcome="ledger_error", cost_nano=0, status=503)


def _resolve(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _fail(waiter: asyncio.Future[None] | None, error: GatewayError) -> bool:
    """Whether there was still someone to tell."""
    if waiter is None or waiter.done():
        return False
    waiter.set_exception(error)
    waiter.exception()  # a handler that went away must not make asyncio report it as unseen
    return True
