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
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVarTuple

from gateway.exit_codes import ExitCode
from gateway.ledger.base import Account
from gateway.ledger.serving.health import BUSY_SECONDS, Health
from gateway.ledger.serving.memory import Memory, QueuedHold, hold_in_full
from gateway.ledger.serving.queue import Queue
from gateway.ledger.serving.rounds import Item, Report, Store
from gateway.ledger.serving.schedule import (
    ASIDE_SECONDS,
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
        hang_seconds: float | None = None,
    ) -> None:
        """`hang_seconds`: after which a round is broken off; `commit_seconds` if it is None."""
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
        self._patience_seconds = commit_seconds if hang_seconds is None else hang_seconds
        self._note_commit = note_commit
        self._give_up_seconds: float | None = None
        self._batch: Sequence[Item] = ()
        """The items of the commit under way; after `_hang_seconds` it hangs."""
        self._begun_seconds: float = 0
        self._hang_seconds = math.inf
        self._ripening: asyncio.TimerHandle | None = None
        self._locked_seconds: dict[Account, float] = {}
        """By account of which another program has locked rows, since when."""
        self._taking_back: asyncio.TimerHandle | None = None
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

    def is_locked(self, account: Account) -> bool:
        """Return whether commits for this account have failed for as long as a caller waits for one."""
        since_seconds = self._locked_seconds.get(account, math.inf)
        return self._loop.time() - since_seconds >= self._commit_seconds

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
        self._hang_seconds = now_seconds + self._patience_seconds
        self._batch = self.queue.make_batch()
        polls = self._polls.begin_if_due(now_seconds, is_idle=not self._batch)
        self._store.start_round(self._batch, polls=polls, report=self._end_round)

    def _end_round(self, report: Report | BaseException) -> None:
        self._run(self._take_over, report)

    def _take_over(self, report: Report | BaseException) -> None:
        """Put into memory what was committed, end the waits for it, and go on."""
        self._hang_seconds = math.inf
        self._batch = ()
        if isinstance(report, BaseException):
            raise report
        if report.snapshot is not None:
            self._memory.apply(report.snapshot)
        self._memory.assign(report.balances_nano, report.spent_nano, report.spendings)
        if report.polled:
            self._polls.finish()
        self._end_steps(report)
        if report.locked or report.freed:
            self._note_locks(report)
        if report.ended is not None:
            self.failure = report.ended
            self._end()
            return
        if report.unavailable is None:
            self.health.note_success(self._loop.time())
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

    def _note_locks(self, report: Report) -> None:
        """Set the steps of locked accounts aside for a while: they would be in the way of others."""
        now_seconds = self._loop.time()
        for account in report.freed:
            self._locked_seconds.pop(account, None)
        for account in report.locked:
            self._locked_seconds.setdefault(account, now_seconds)
        lasting = [
            account.name
            for account, since_seconds in self._locked_seconds.items()
            if now_seconds - since_seconds >= BUSY_SECONDS
        ]
        self.health.note_locks(lasting, now_seconds)
        self.queue.set_aside(report.locked)
        if self._taking_back is None and self.queue.has_aside:
            self._taking_back = self._loop.call_later(ASIDE_SECONDS, self._run, self._take_back)

    def _take_back(self) -> None:
        self._taking_back = None
        self.queue.take_back()
        self._rounds.hurry()

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
        if self._is_time_up() and not self.health.writable:
            return True
        return not self.queue and (self._is_time_up() or not self.queue.has_aside)

    def _is_time_up(self) -> bool:
        return self._give_up_seconds is not None and self._loop.time() >= self._give_up_seconds

    def _watch(self) -> None:
        """Poll if no round does, and notice a round that hangs: the one timer that goes on and on."""
        now_seconds = self._loop.time()
        self._expire()
        if self._hang_seconds <= now_seconds:
            self._note_hang()
        elif self._polls.due_seconds <= now_seconds:
            self._rounds.hurry()
        times = (self._polls.due_seconds, self._hang_seconds, now_seconds + POLL_SECONDS)
        next_seconds = min(one for one in times if one > now_seconds)
        self._loop.call_at(next_seconds, self._run, self._watch)

    def _note_hang(self) -> None:
        """Refuse what is new, and let the round fail if that can be done.

        A frozen disk neither works nor fails.
        """
        self.health.note_hang(self._patience_seconds, self._loop.time())
        self._store.break_off()
        if self._is_time_up():
            log.critical("a commit hangs, and so would the stop: leaving at once")
            os._exit(ExitCode.FAILED)
        self._hang_seconds += self._patience_seconds

    def _expire(self) -> None:
        """Fail the waits that have lasted too long, whatever becomes of the round under way.

        The end of its batch is not known yet, so waits for it go on where it could not be undone.
        """
        batch = () if self._store.takes_back else {item.hold for item in self._batch}
        self.queue.expire(self._loop.time() - self._commit_seconds, batch)

    def _end(self) -> None:
        self.ended.set()
        self.health.writable = False
        self._polls.close()
        self.queue.fail_all()
