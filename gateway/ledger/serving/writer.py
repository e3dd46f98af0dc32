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
from typing import Final, TypeVarTuple

from gateway.ledger.base import Account
from gateway.ledger.serving.health import BUSY_SECONDS, Health
from gateway.ledger.serving.memory import Memory, hold_in_full
from gateway.ledger.serving.queue import Item, Queue, Report, Store
from gateway.process import ExitCode

log = logging.getLogger("gateway.ledger")

Arguments = TypeVarTuple("Arguments")

SHARE_SECONDS: Final = 0.005
"""How long those who ask for a poll wait for others who ask."""
POLL_SECONDS: Final = 0.25
"""Commits of other processes are seen within this time and that of a batch."""
RETRY_SECONDS: Final = 0.2
"""The pause after a batch that failed, so that a full disk is not tried in a busy loop."""


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
        self._rounds = Rounds(partial(self._run, self._begin))
        self.queue = Queue(self._rounds.hurry)
        self.health = Health()
        self.ended = asyncio.Event()
        """Set when nothing will be committed any more: after `close`, or after a bug of ours."""
        self.is_ended = False
        self.failure: Exception | None = None
        """Why it ended, if this process must not serve any more."""
        self._store = store
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._polls = Polls()
        self._commit_seconds = commit_seconds
        self._patience_seconds = commit_seconds if hang_seconds is None else hang_seconds
        self._note_commit = note_commit
        self._give_up_seconds: float | None = None
        self._batch: Sequence[Item] = ()
        """The items of the commit under way; after `_hang_seconds` it hangs."""
        self._begun_seconds: float = 0
        self._hang_seconds = math.inf
        self._locked_seconds: dict[Account, float] = {}
        """The times since which another program has locked rows of accounts."""
        self._loop.call_later(POLL_SECONDS, self._run, self._watch)

    async def refresh(self) -> None:
        """Return once the present commits of other processes are in memory."""
        if not self.is_ended:
            # Not at once: a poll takes a round, and one poll serves all who ask within this time.
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
        # What lingers has neither a wait nor a place in a batch yet, and the timer may come too late.
        self.queue.ripen_all()
        self._rounds.hurry()

    def _run(self, step: Callable[[*Arguments], None], *arguments: *Arguments) -> None:
        """Take a step, unless it is over. If it fails, by a bug of ours, it is over."""
        # Timers and reports still come then, and the store that a step would ask may be closed.
        if self.is_ended:
            return
        try:
            step(*arguments)
        except Exception:
            log.exception("the ledger's writer failed")
            self._end()

    def _begin(self) -> None:
        now_seconds = self._loop.time()
        # Set before the batch is given away: a store may report in this very call.
        self._begun_seconds = now_seconds
        self._hang_seconds = now_seconds + self._patience_seconds
        self._batch = self.queue.make_batch()
        polls = self._polls.begin_if_due(now_seconds, is_idle=not self._batch)
        self._store.start_round(self._batch, polls=polls, report=self._end_round)

    def _end_round(self, report: Report | BaseException) -> None:
        self._run(self._take_over, report)
        # Whoever goes on here meets a round that is over, and what it queues is in the next one.
        self.queue.tell()

    def _take_over(self, report: Report | BaseException) -> None:
        """Put into memory what was committed, end the waits for it, and go on."""
        self._hang_seconds = math.inf
        self._batch = ()
        if isinstance(report, BaseException):
            raise report  # a bug of ours: `_run` ends the writer, as nobody knows what was committed
        # The poll was read before the batch was committed, so its balances are the older ones.
        if report.snapshot is not None:
            self._memory.apply(report.snapshot)
        self._memory.assign(report.balances_nano, report.spent_nano, report.spendings)
        if report.polled:
            self._polls.finish()
        # Behind the memory: whoever wakes up sees the balance that the charge has left.
        self._end_steps(report)
        if report.locked or report.freed:
            self._note_locks(report)
        if report.ended is not None:
            self.failure = report.ended
            self._end()
            return
        if report.unavailable is None:
            self.health.note_success(self._begun_seconds)
        else:
            self.health.note_failure(
                report.unavailable, self._loop.time(), is_brief=report.is_brief
            )
            # The batch is known not to be committed, so its waits may fail at once.
            self._expire()
        self._go_on()

    def _end_steps(self, report: Report) -> None:
        """End the waits for what was committed, declined or refused."""
        if report.done:
            # A disk may have filled up while the commit was under way, so only its beginning is proof.
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
        # Each try that fails reports the same lock: it has lasted since the first of them.
        for account in report.locked:
            self._locked_seconds.setdefault(account, now_seconds)
        lasting = [
            account.name
            for account, since_seconds in self._locked_seconds.items()
            if now_seconds - since_seconds >= BUSY_SECONDS
        ]
        self.health.note_locks(lasting, now_seconds)
        self.queue.set_aside(report.locked)

    def _go_on(self) -> None:
        if self._give_up_seconds is not None and self._is_finished():
            self._end()
            return
        if self.queue.holds:
            self._rounds.hurry()  # it notes the wish, as the round ends only with the next line
        self._rounds.end_one(pauses=self.health.should_pause)

    def _is_finished(self) -> bool:
        # A disk that has failed so long would keep the process from its end for ever.
        if self._is_time_up() and not self.health.writable:
            return True
        # What is set aside waits for another program's lock, which may be let go until the time is up.
        return not self.queue.holds and (self._is_time_up() or not self.queue.has_aside)

    def _is_time_up(self) -> bool:
        return self._give_up_seconds is not None and self._loop.time() >= self._give_up_seconds

    def _watch(self) -> None:
        """Poll if no round does, and notice a round that hangs: the one timer that goes on and on."""
        now_seconds = self._loop.time()
        self._expire()  # also while a round hangs, which reports nothing
        if self._hang_seconds <= now_seconds:
            self._note_hang()
        elif self._polls.due_seconds <= now_seconds:
            self._rounds.hurry()
        times = (self._polls.due_seconds, self._hang_seconds, now_seconds + POLL_SECONDS)
        # What is past was dealt with above, or the round that has just begun deals with it.
        next_seconds = min(one for one in times if one > now_seconds)
        self._loop.call_at(next_seconds, self._run, self._watch)

    def _note_hang(self) -> None:
        """Refuse what is new, and let the round fail if that can be done.

        A frozen disk neither works nor fails.
        """
        self.health.note_hang(self._patience_seconds, self._loop.time())
        self._store.break_off()
        # Nothing ends a thread that waits for a frozen disk, and Python waits for its threads.
        if self._is_time_up():
            log.critical("a commit hangs, and so would the stop: leaving at once")
            os._exit(ExitCode.FAILED)
        # Looked at again after as long: a stop that begins meanwhile has to find its way out, too.
        self._hang_seconds += self._patience_seconds

    def _expire(self) -> None:
        """Fail the waits that have lasted too long, whatever becomes of the round under way.

        The end of its batch is not known yet, so waits for it go on where it could not be undone.
        """
        batch = () if self._store.takes_back else {item.hold for item in self._batch}
        self.queue.expire(self._loop.time() - self._commit_seconds, batch)

    def _end(self) -> None:
        # Set first: whoever is woken below must find nothing to queue for.
        self.is_ended = True
        self.ended.set()
        self.health.writable = False
        self._polls.close()
        self.queue.fail_all()


class Rounds:
    """Begins one round after the other: at once, soon, or after a pause."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._soon: asyncio.TimerHandle | None = None
        self._is_wanted = False
        self._is_busy = False
        """True from the decision to begin a round until its end, and until that of a pause."""

    def hurry(self) -> None:
        """Begin a round at once, or once the one under way is done: it takes all that came since."""
        if self._is_busy:
            self._is_wanted = True
        else:
            self._is_busy = True
            self._begin()

    def hurry_within(self, seconds: float) -> None:
        """Hurry after this time, counted from the first call."""
        if self._soon is None:
            self._soon = self._loop.call_later(seconds, self._hurry_late)

    def end_one(self, *, pauses: bool) -> None:
        """Note the end of a round, and begin the next one if somebody waits for it."""
        if pauses:
            # It stays busy meanwhile, so that nobody's hurry tries a broken disk in a loop.
            self._loop.call_later(RETRY_SECONDS, self._start)
        elif self._is_wanted:
            self._start()
        else:
            self._is_busy = False

    def _hurry_late(self) -> None:
        self._soon = None
        self.hurry()

    def _start(self) -> None:
        self._is_wanted = False
        self._begin()


class Polls:
    """The time of the last poll, and who waits for one that begins after they asked."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.due_seconds = self._loop.time() + POLL_SECONDS
        self._asked: list[asyncio.Future[None]] = []
        self._under_way: list[asyncio.Future[None]] = []
        """Waits that the poll under way ends; if it fails, the next one does."""

    def ask(self) -> asyncio.Future[None]:
        """Return a wait for the next poll that begins. Waits of one time share a poll."""
        wait: asyncio.Future[None] = self._loop.create_future()
        self._asked.append(wait)
        return wait

    def begin_if_due(self, now_seconds: float, *, is_idle: bool) -> bool:
        """Return whether to poll in this round: it is idle, somebody asked, or it is time."""
        # Not in each round: a busy ledger has hundreds a second, and each poll reads the database.
        if not (is_idle or now_seconds >= self.due_seconds or self._asked):
            return False
        self.due_seconds = now_seconds + POLL_SECONDS
        # Who asks from now on may know of a commit that this poll is too early for.
        self._under_way += self._asked
        self._asked.clear()
        return True

    def finish(self) -> None:
        """End the waits for the poll, whose result is in memory."""
        for wait in self._under_way:
            if not wait.done():  # its task may have been cancelled
                wait.set_result(None)
        self._under_way.clear()

    def close(self) -> None:
        """End all waits: there will be no poll any more."""
        self._under_way += self._asked
        self.finish()
