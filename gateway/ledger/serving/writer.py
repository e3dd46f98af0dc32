"""The only writer: what is queued is its next batch.

Only the event loop touches the queue and the memory; only the store touches the database.
A round is a poll, a batch, or both. Everything here is a callback: one begins a round, one takes
its report over. So nothing runs between a commit's report and the end of the waits for it, and
memory is never seen half updated.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import TypeVarTuple

from gateway.exit_codes import ExitCode
from gateway.ledger.serving.health import Health
from gateway.ledger.serving.memory import Memory, QueuedHold, hold_in_full
from gateway.ledger.serving.queue import Queue
from gateway.ledger.serving.rounds import Item, Report, Store
from gateway.ledger.serving.schedule import (
    LINGER_SECONDS,
    POLL_SECONDS,
    SHARE_SECONDS,
    Polls,
    Rounds,
)

log = logging.getLogger("gateway.ledger")

Arguments = TypeVarTuple("Arguments")


class Writer:
    """Commits what is added, in order, and keeps memory equal to what was committed."""

    def __init__(
        self,
        store: Store,
        memory: Memory,
        note_commit: Callable[[int, float], None] | None = None,
        *,
        commit_seconds: float,
    ) -> None:
        self.queue = Queue()
        self.health = Health()
        self.ended = asyncio.Event()
        """Set when nothing will be committed any more: after `close`, or after a bug of ours."""
        self.failure: Exception | None = None
        """Why it ended, if this process must not serve any more."""
        self._store = store
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._polls = Polls()
        self._rounds = Rounds(partial(self._run, self._begin))
        self._commit_seconds = commit_seconds
        self._note_commit = note_commit
        self._give_up_seconds: float | None = None
        self._batch: Sequence[Item] = ()
        """The items of the commit under way; after `_hang_seconds` it hangs."""
        self._begun_seconds: float = 0
        self._hang_seconds = math.inf
        self._ripening: asyncio.TimerHandle | None = None
        self._loop.call_later(POLL_SECONDS, self._run, self._watch)

    def linger(self, hold: QueuedHold) -> None:
        """Queue the hold's row, for which nobody waits."""
        self.queue.linger(hold)
        if self._ripening is None:
            self._ripening = self._loop.call_later(LINGER_SECONDS, self._ripen)

    def admit(self, hold: QueuedHold) -> None:
        """Queue the hold's row, because its request waits for it."""
        self.queue.admit(hold)
        self._rounds.hurry()

    def add(self, hold: QueuedHold) -> None:
        """Queue the hold's row, its settlement, or both, because somebody waits."""
        self.queue.add(hold)
        self._rounds.hurry()

    async def refresh(self) -> None:
        """Return once the present commits of other processes are in memory."""
        if not self.ended.is_set():
            polled = self._polls.ask()
            self._rounds.hurry_within(SHARE_SECONDS)
            await polled

    def look(self) -> None:
        """Look for commits of others soon: there are some."""
        self._polls.due_seconds = self._loop.time()
        self._rounds.hurry()

    def close(self) -> None:
        """End when all is committed, or commits failed for `commit_seconds`."""
        self._give_up_seconds = self._loop.time() + self._commit_seconds
        self.queue.ripen_all()
        self._rounds.hurry()

    def _run(self, step: Callable[[*Arguments], None], *arguments: *Arguments) -> None:
        """Take a step, unless it is over. If it fails, by a bug of ours, it is over."""
        if self.ended.is_set():
            return
        try:
            step(*arguments)
        except Exception:
            log.exception("the ledger's writer failed")
            self._end()

    def _ripen(self) -> None:
        if self.queue.ripen():
            self._rounds.hurry()
        self._ripening = (
            self._loop.call_later(LINGER_SECONDS, self._ripen) if self.queue.lingers else None
        )

    def _begin(self) -> None:
        now_seconds = self._loop.time()
        self._begun_seconds = now_seconds
        self._hang_seconds = now_seconds + self._commit_seconds
        self._batch = self.queue.make_batch()
        polls = self._polls.begin_if_due(now_seconds, is_idle=not self._batch)
        self._store.start_round(self._batch, polls=polls, report=self._end_round)

    def _end_round(self, report: Report | BaseException) -> None:
        self._run(self._take_over, report)

    def _take_over(self, report: Report | BaseException) -> None:
        """Put into memory what was committed, end the waits for it, and go on."""
        self._hang_seconds = math.inf
        if isinstance(report, BaseException):
            raise report
        if report.snapshot is not None:
            self._memory.apply(report.snapshot)
        self._memory.assign(report.balances_nano, report.spent_nano, report.spendings)
        if report.polled:
            self._polls.finish()
        self._end_steps(report)
        if report.ended is not None:
            self.failure = report.ended
            self._end()
            return
        if report.unavailable is None:
            self.health.note_success()
        else:
            self.health.note_failure(
                report.unavailable, self._loop.time(), is_brief=report.is_brief
            )
            self._expire()
        self._go_on()

    def _end_steps(self, report: Report) -> None:
        """End the waits for what was committed, declined or refused."""
        if report.done:
            self.health.note_commit(self._begun_seconds)
            if self._note_commit is not None:
                self._note_commit(len(report.done), self._loop.time() - self._begun_seconds)
        for item in report.in_full:
            hold_in_full(item.hold)
        for item in report.done:
            self.queue.finish(item)
        for item, refusal in report.declined:
            self.queue.decline(item, refusal)
        for item, error in report.refused:
            self.queue.refuse(item, error)
            self.health.doubt()

    def _go_on(self) -> None:
        if self._is_finished():
            self._end()
            return
        if self.queue:
            self._rounds.hurry()
        self._rounds.end_one(pauses=self.health.should_pause)

    def _is_finished(self) -> bool:
        if self._give_up_seconds is None:
            return False
        return not self.queue or (not self.health.writable and self._is_time_up())

    def _is_time_up(self) -> bool:
        return self._give_up_seconds is not None and self._loop.time() >= self._give_up_seconds

    def _watch(self) -> None:
        """Poll if no round does, and notice a round that hangs: the one timer that goes on and on."""
        now_seconds = self._loop.time()
        if self._hang_seconds <= now_seconds:
            self._note_hang()
        elif self._polls.due_seconds <= now_seconds:
            self._rounds.hurry()
        times = (self._polls.due_seconds, self._hang_seconds, now_seconds + POLL_SECONDS)
        next_seconds = min(one for one in times if one > now_seconds)
        self._loop.call_at(next_seconds, self._run, self._watch)

    def _note_hang(self) -> None:
        """Fail all waits but those for the batch under way, which neither works nor fails.

        A frozen disk does that. The end of that batch is not known yet, so its waits go on.
        """
        self.health.note_hang(self._commit_seconds)
        self._store.break_off()
        self._expire({item.hold for item in self._batch})
        if self._is_time_up():
            log.critical("a commit hangs, and so would the stop: leaving at once")
            os._exit(ExitCode.FAILED)
        self._hang_seconds += self._commit_seconds

    def _expire(self, but: Container[object] = ()) -> None:
        self.queue.expire(self._loop.time() - self._commit_seconds, but)

    def _end(self) -> None:
        self.ended.set()
        self.health.writable = False
        self._polls.close()
        self.queue.fail_all()
