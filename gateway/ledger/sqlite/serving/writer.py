"""The only writer: the whole queue is its next batch.

Only the event loop touches the queue and the memory; only the connection's thread touches SQLite.
Nothing is awaited between a commit's report and the end of the waits for it, so memory is never
seen half updated.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Container, Sequence

from gateway.exit_codes import ExitCode
from gateway.ledger.sqlite.batch import MAX_ITEMS, Item
from gateway.ledger.sqlite.serving.health import Health
from gateway.ledger.sqlite.serving.memory import Memory, QueuedHold
from gateway.ledger.sqlite.serving.queue import Queue
from gateway.ledger.sqlite.serving.schedule import Alarm, Polls
from gateway.ledger.sqlite.serving.store import Report, Store

log = logging.getLogger("gateway.ledger")


class Writer:
    """Commits what is added, in order, and keeps memory equal to what was committed."""

    def __init__(self, store: Store, memory: Memory, *, commit_seconds: float) -> None:
        self.queue = Queue()
        self.health = Health()
        self.ended = asyncio.Event()
        """Set when nothing will be committed any more: after `close`, or after a bug of ours."""
        self._store = store
        self._memory = memory
        self._alarm = Alarm()
        self._polls = Polls()
        self._loop = asyncio.get_running_loop()
        self._commit_seconds = commit_seconds
        self._give_up_seconds: float | None = None
        self._hang_timer: asyncio.TimerHandle | None = None
        self.hurry = self._alarm.ring
        """Commit as soon as the batch under way is done, because somebody waits."""

    def add(self, hold: QueuedHold) -> None:
        """Queue the hold's row, its settlement, or both."""
        self.queue.add(hold)
        self._alarm.ring_soon()

    async def refresh(self) -> None:
        """Return once the present commits of other processes are in memory."""
        if not self.ended.is_set():
            polled = self._polls.ask()
            self._alarm.ring_soon()
            await polled

    def close(self) -> None:
        """Let `run` end when all is committed, or commits failed for `commit_seconds`."""
        self._give_up_seconds = self._loop.time() + self._commit_seconds
        self.hurry()

    async def run(self) -> None:
        """Commit until closed. Each round is a sleep, a batch, and what follows from its report."""
        try:
            while not self._is_finished():
                await self._alarm.sleep(is_retry=self.health.should_pause)
                self._take_over(await self._run_round(self.queue.make_batch()))
        finally:
            self._end()

    def _is_finished(self) -> bool:
        if self._give_up_seconds is None:
            return False
        return not self.queue or (not self.health.writable and self._is_time_up())

    def _is_time_up(self) -> bool:
        return self._give_up_seconds is not None and self._loop.time() >= self._give_up_seconds

    async def _run_round(self, items: Sequence[Item]) -> Report:
        polls = self._polls.begin_if_due(is_idle=not items)
        self._watch(items)
        try:
            return await self._store.run_round(items, polls=polls)
        finally:
            if self._hang_timer is not None:
                self._hang_timer.cancel()

    def _watch(self, items: Sequence[Item]) -> None:
        self._hang_timer = self._loop.call_later(self._commit_seconds, self._note_hang, items)

    def _note_hang(self, items: Sequence[Item]) -> None:
        """Fail all waits but those for the batch under way, which neither works nor fails.

        A frozen disk does that. The end of that batch is not known yet, so its waits go on.
        """
        self.health.note_hang(self._commit_seconds)
        self._expire({item.hold for item in items})
        if self._is_time_up():
            log.critical("a commit hangs, and so would the stop: leaving at once")
            os._exit(ExitCode.FAILED)
        self._watch(items)

    def _take_over(self, report: Report) -> None:
        """Put into memory what was committed. Not a coroutine, so that nothing runs in between."""
        if report.snapshot is not None:
            self._memory.apply(report.snapshot)
        self._memory.assign(report.balances_nano, report.spent_nano)
        if report.polled:
            self._polls.finish()
        for item in report.done:
            self.queue.finish(item)
        for item, error in report.refused:
            self.queue.refuse(item, error)
        if report.unavailable is None:
            self.health.note_success()
        else:
            self.health.note_failure(report.unavailable, self._loop.time())
            self._expire()
        if report.unavailable or len(report.done) + len(report.refused) == MAX_ITEMS:
            self.hurry()

    def _expire(self, but: Container[object] = ()) -> None:
        self.queue.expire(self._loop.time() - self._commit_seconds, but)

    def _end(self) -> None:
        self.ended.set()
        self.health.writable = False
        self._polls.close()
        self.queue.fail_all()
