"""The only writer: it owns the connection, and the whole queue is its next batch.

Only the event loop touches the queue and the memory; only the connection's thread touches SQLite.
Nothing is awaited between a commit's report and the end of those waits, so memory is never seen
half updated.
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
from gateway.exit_codes import ExitCode
from gateway.ledger.sqlite.batch import MAX_ITEMS, Item
from gateway.ledger.sqlite.files import FileWatch
from gateway.ledger.sqlite.serving.changes import ChangeFeed
from gateway.ledger.sqlite.serving.memory import Memory, QueuedHold, drop_hold
from gateway.ledger.sqlite.serving.thread import (
    Report,
    is_busy,
    poll_and_commit,
    run_on_thread,
)
from gateway.ledger.sqlite.serving.wal import ALARM_BYTES, WalKeeper

log = logging.getLogger("gateway.ledger")

LINGER_SECONDS: Final = 0.005
"""How long an admission waits for its settlement: a fast reply is then one commit."""

POLL_SECONDS: Final = 0.25
"""Commits of other processes are seen within this time and that of a batch."""

RETRY_SECONDS: Final = 0.2
"""The pause after a batch that failed, so that a full disk is not tried in a busy loop."""

BUSY_SECONDS: Final = 1
"""How long a locked database is retried before it counts as an outage: others' writes take less."""


class Writer:
    """Commits what is added, in order, and keeps memory equal to what was committed."""

    def __init__(
        self,
        database: aiosqlite.Connection,
        memory: Memory,
        feed: ChangeFeed,
        wal: WalKeeper,
        files: FileWatch,
        *,
        clock: Callable[[], int],
        commit_seconds: float,
    ) -> None:
        self.writable = True
        self.closed = False
        self.ended = asyncio.Event()
        """Set when nothing will be committed any more: after `close`, or after a bug of ours."""
        self._database = database
        self._memory = memory
        self._feed = feed
        self._wal = wal
        self._files = files
        self._alarmed = False
        self._clock = clock
        self._commit_seconds = commit_seconds
        self._loop = asyncio.get_running_loop()
        self._queue: dict[QueuedHold, None] = {}
        self._wake = asyncio.Event()
        self._linger: asyncio.TimerHandle | None = None
        self._polled_seconds = self._loop.time()
        self._give_up_seconds: float | None = None
        self._busy_since_seconds: float | None = None
        self._pause = False
        self._waiting: list[asyncio.Future[None]] = []
        """Waits for the next poll; they move to `_looking` when it starts."""
        self._looking: list[asyncio.Future[None]] = []

    def add(self, hold: QueuedHold) -> None:
        """Queue the hold's row, its settlement, or both."""
        self._queue[hold] = None
        self._wake_soon()

    def hurry(self) -> None:
        """Commit as soon as the batch under way is done, because somebody waits."""
        self._wake.set()

    async def refresh(self) -> None:
        """Return once the present commits of others are in memory. Calls at one time share a poll."""
        if not self.closed:
            seen = self._loop.create_future()
            self._waiting.append(seen)
            self._wake_soon()
            await seen

    def _wake_soon(self) -> None:
        if self._linger is None:
            self._linger = self._loop.call_later(LINGER_SECONDS, self._wake.set)

    def find(self, request_id: str) -> QueuedHold | None:
        """Return the hold of a request as long as part of it is not committed."""
        return next((one for one in self._queue if one.admission.request_id == request_id), None)

    def close(self) -> None:
        """Let `run` end when all is committed, or commits failed for `commit_seconds`."""
        self._give_up_seconds = self._loop.time() + self._commit_seconds
        self._wake.set()

    async def run(self) -> None:
        try:
            while not self._is_finished():
                await self._sleep()
                self._absorb(await self._poll_and_commit())
        finally:
            self._end()

    def _is_finished(self) -> bool:
        if self._give_up_seconds is None:
            return False
        return not self._queue or (not self.writable and self._loop.time() >= self._give_up_seconds)

    async def _sleep(self) -> None:
        """Wait for something to commit, the next poll or the next retry."""
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

    async def _poll_and_commit(self) -> Report:
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
        files, now_ms = self._files, self._clock()
        work = partial(poll_and_commit, feed=feed, items=items, now_ms=now_ms, wal=wal, files=files)
        under_way = self._loop.create_task(run_on_thread(self._database, work))
        while not under_way.done():
            await asyncio.wait((under_way,), timeout=self._commit_seconds)
            if under_way.done():
                break
            self._note_hang({item.hold for item in items})
            if self._give_up_seconds is not None and self._loop.time() >= self._give_up_seconds:
                log.critical("a commit hangs, and so would the stop: leaving at once")
                os._exit(ExitCode.FAILED)
        return under_way.result()

    def _note_hang(self, under_way: Container[object]) -> None:
        """Fail all waits but those for the batch under way, which neither works nor fails.

        A frozen disk does that. The end of that batch is not known yet, so its waits go on.
        """
        if self.writable:
            log.error("a commit has been under way for %s s", self._commit_seconds)
        self.writable = False
        self._expire(under_way)

    def _absorb(self, report: Report) -> None:
        """Take over what was committed. Not a coroutine, so that nothing runs in between."""
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
        assert isinstance(hold, QueuedHold)
        hold.recorded = True
        _resolve(hold.admitted)
        if item.settlement is not None:
            drop_hold(hold)
            _resolve(hold.settled)
        if hold.settlement is item.settlement:
            del self._queue[hold]

    def _refuse(self, item: Item, error: Exception) -> None:
        """Fail a bad item alone and release its hold."""
        hold = item.hold
        assert isinstance(hold, QueuedHold)
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
            log.critical("the ledger cannot be written: %s", error)
        elif error is None and not self.writable:
            log.warning("the ledger can be written again")
        if error is None or is_outage:
            self.writable = error is None
        if error is None:
            self._busy_since_seconds = None
        self._pause = error is not None and not is_busy(error)

    def _note_wal(self, size: int | None) -> None:
        """Warn once when the log has grown too large, and again the next time it does."""
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

    def _expire(self, but: Container[object] = ()) -> None:
        """Fail waits older than `commit_seconds`; void what was not delivered."""
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


def _withdraw(hold: QueuedHold) -> None:
    """Void the charge of a JSON reply, which was not delivered; keep that of a stream."""
    settlement = hold.settlement
    if settlement is None or hold.admission.stream or not settlement.is_posted:
        return
    hold.settlement = replace(settlement, outcome="ledger_error", cost_nano=0, status=503)


def _resolve(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _fail(waiter: asyncio.Future[None] | None, error: GatewayError) -> bool:
    """Return whether somebody was still waiting."""
    if waiter is None or waiter.done():
        return False
    waiter.set_exception(error)
    waiter.exception()  # the handler may be gone, and asyncio would report the error as unseen
    return True
