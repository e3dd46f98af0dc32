"""The only writer of a serving process. It commits the queue in batches.

Only the event loop touches the queue and the memory; only the store touches the database. A round is a
poll, a batch, or both. Everything here is a callback: one begins a round, another takes its report. So
nothing runs between a commit's report and the end of the waits for it, and nobody sees memory half
updated.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Final, TypeVarTuple

from gateway.base.deadlines import LATE_SECONDS
from gateway.base.process import ExitCode
from gateway.ledger.base import Hold
from gateway.ledger.serving.health import Health
from gateway.ledger.serving.memory import Memory
from gateway.ledger.serving.queue import Item, Queue, Report, Store

log = logging.getLogger("gateway.ledger")

Arguments = TypeVarTuple("Arguments")

SHARE_SECONDS: Final = 0.005
"""How long a requested poll is delayed, so that one poll serves several requests."""
POLL_SECONDS: Final = 0.25
"""Commits of other processes are seen within this time plus the time of a batch."""
RETRY_SECONDS: Final = 0.2
"""The pause after a batch that failed, so that a full disk is not tried in a busy loop."""


class Writer:
    """Commits the queue's steps in order, and keeps memory equal to the committed state."""

    def __init__(
        self,
        store: Store,
        memory: Memory,
        *,
        commit_seconds: float,
        hang_seconds: float | None = None,
    ) -> None:
        """`hang_seconds`: after which a round is broken off; None means `commit_seconds`."""
        self._rounds = Rounds(partial(self._run, self._begin))
        self.queue = self._make_queue(self._rounds.hurry)
        self.health = Health()
        self.ended = asyncio.Event()
        """Set when nothing will be committed any more: after `close`, or after a bug."""
        self.is_ended = False
        self.failure: Exception | None = None
        """Why the writer ended, if this process must not serve any more."""
        self._store = store
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._polls = Polls()
        self._commit_seconds = commit_seconds
        self._patience_seconds = commit_seconds if hang_seconds is None else hang_seconds
        self.commit_watchers: list[Callable[[int, float], object]] = []
        """Called after each commit with the number of its requests and its seconds, on the event loop."""
        self._give_up_seconds: float | None = None
        self._batch: Sequence[Item] = ()
        """The items of the commit under way. It counts as hanging after `_hang_seconds`."""
        self._begun_seconds: float = 0
        self._hang_seconds = math.inf
        self._watch_due_seconds = self._loop.time() + POLL_SECONDS
        self._loop.call_at(self._watch_due_seconds, self._run, self._watch)

    def _make_queue(self, wake: Callable[[], None]) -> Queue:
        return Queue(wake)

    async def refresh(self) -> None:
        """Return once the present commits of other processes are in memory."""
        if not self.is_ended:
            # Delayed, as a poll takes a round: one poll serves all requests within this time.
            polled = self._polls.ask()
            self._rounds.hurry_within(SHARE_SECONDS)
            await polled

    def look(self) -> None:
        """Poll soon, as there are commits of other processes."""
        self._polls.due_seconds = self._loop.time()
        self._rounds.hurry()

    def close(self) -> None:
        """End when all is committed, or commits failed for `commit_seconds`."""
        self._give_up_seconds = self._loop.time() + self._commit_seconds
        # Lingering rows are in no batch yet, and the timer may fire too late.
        self.queue.ripen_all()
        self._rounds.hurry()

    def _run(self, step: Callable[[*Arguments], None], *arguments: *Arguments) -> None:
        """Take a step, unless the writer has ended. If the step raises, which is a bug, the writer ends."""
        # Timers and reports still come after the end, when the store may be closed.
        if self.is_ended:
            return
        try:
            step(*arguments)
        except Exception:
            log.exception("the ledger's writer failed")
            self._end()

    def _begin(self) -> None:
        now_seconds = self._loop.time()
        # Set before the store gets the batch: it may report in the same call.
        self._begun_seconds = now_seconds
        self._hang_seconds = now_seconds + self._patience_seconds
        self._batch = self.queue.make_batch()
        polls = self._polls.begin_if_due(now_seconds, is_idle=not self._batch)
        self._store.start_round(self._batch, polls=polls, report=self._end_round)

    def _end_round(self, report: Report | BaseException) -> None:
        self._run(self._take_over, report)
        # Tasks resumed here see the round as over; their new steps go into the next one.
        self.queue.tell()

    def _take_over(self, report: Report | BaseException) -> None:
        """Put the committed values into memory, end the waits for them, and go on."""
        self._hang_seconds = math.inf
        self._batch = ()
        if isinstance(report, BaseException):
            raise report  # a bug: `_run` ends the writer, as nobody knows what was committed
        # The poll came before the batch's commit, so its balances are older.
        if report.snapshot is not None:
            self._memory.apply(report.snapshot)
        self._memory.assign(report.balances_nano, report.spent_nano, report.spendings)
        if report.polled:
            self._polls.finish()
        # After memory was updated, so that resumed tasks see the new balance.
        self._end_steps(report)
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
            # The batch was certainly not committed, so its waits may fail at once.
            self._expire()
        self._go_on()

    def _end_steps(self, report: Report) -> None:
        """End the waits for items that were committed or refused."""
        if report.done:
            # The disk may have filled up during the commit, so it proves only its beginning.
            self.health.note_commit(self._begun_seconds)
            for watch in self.commit_watchers:
                watch(len(report.done), self._loop.time() - self._begun_seconds)
        for item in report.done:
            self.queue.finish(item)
        for item, error in report.refused:
            self.queue.refuse(item, error)
            self.health.doubt()

    def _go_on(self) -> None:
        if self._give_up_seconds is not None and self._is_finished():
            self._end()
            return
        if self.queue.holds:
            self._rounds.hurry()  # this only notes the request: the round ends with the next line
        self._rounds.end_one(pauses=self.health.should_pause)

    def _is_finished(self) -> bool:
        # A disk that has failed for so long would delay the end of the process for ever.
        return not self.queue.holds or (self._is_time_up() and not self.health.writable)

    def _is_time_up(self) -> bool:
        return self._give_up_seconds is not None and self._loop.time() >= self._give_up_seconds

    def _watch(self) -> None:
        """The only recurring timer: poll if no round has, and notice a round that hangs."""
        now_seconds = self._loop.time()
        self._expire()  # needed here, too: a round that hangs reports nothing
        if self._hang_seconds <= now_seconds:
            self._note_hang()
        elif self._polls.due_seconds <= now_seconds:
            self._rounds.hurry()
        times = (self._polls.due_seconds, self._hang_seconds, now_seconds + POLL_SECONDS)
        # Past times were handled above, or by the round that has just begun.
        next_seconds = min(one for one in times if one > now_seconds)
        self._watch_due_seconds = next_seconds
        self._loop.call_at(next_seconds, self._run, self._watch)

    def _note_hang(self) -> None:
        """Refuse new requests, and make the round fail if possible.

        A frozen disk neither works nor fails.
        """
        self.health.note_hang(self._patience_seconds, self._loop.time())
        self._store.break_off()
        # A thread that waits for a frozen disk cannot be ended, and Python waits for its threads.
        if self._is_time_up():
            log.critical("a commit hangs, and so would the stop: leaving at once")
            os._exit(ExitCode.FAILED)
        # Checked again after the same time: a stop that begins meanwhile has to end, too.
        self._hang_seconds += self._patience_seconds

    def _expire(self) -> None:
        """Fail the waits that have lasted too long, whatever the result of the round under way.

        The result of its batch is unknown, so waits for steps that could not be undone go on.
        """
        now_seconds = self._loop.time()
        late_seconds = now_seconds - self._watch_due_seconds
        if late_seconds > LATE_SECONDS:
            # This process did not run, and neither did its thread: the database is not to blame.
            self._watch_due_seconds = now_seconds
            self._defer(late_seconds, now_seconds)
        self.queue.expire(now_seconds - self._commit_seconds, self._list_undecided())

    def _defer(self, seconds: float, now_seconds: float) -> None:
        """Let all waits last longer by the time in which this process did not run."""
        self._hang_seconds += seconds
        self.queue.defer(seconds, now_seconds)

    def _list_undecided(self) -> Container[Hold]:
        """Return the holds of the round under way, whose charges cannot be taken back."""
        return {item.hold for item in self._batch}

    def _end(self) -> None:
        # Set first, so that tasks resumed below cannot queue anything.
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
        """True from the decision to begin a round until its end and the end of a pause after it."""

    def hurry(self) -> None:
        """Begin a round at once or after the one under way. It takes all steps queued by then."""
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
            # `busy` stays set during the pause, so that no `hurry` tries a broken disk in a loop.
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
    """The time of the last poll, and the waits for a poll that begins after them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.due_seconds = self._loop.time() + POLL_SECONDS
        self._asked: list[asyncio.Future[None]] = []
        self._under_way: list[asyncio.Future[None]] = []
        """Waits that the poll under way ends; if it fails, the next poll ends them."""

    def ask(self) -> asyncio.Future[None]:
        """Return a wait for the next poll that begins. Waits of one time share a poll."""
        wait: asyncio.Future[None] = self._loop.create_future()
        self._asked.append(wait)
        return wait

    def begin_if_due(self, now_seconds: float, *, is_idle: bool) -> bool:
        """Return whether to poll in this round: it is idle, somebody asked, or it is time."""
        # Not in each round: a busy ledger has hundreds of rounds a second, and a poll reads the
        # database.
        if not (is_idle or now_seconds >= self.due_seconds or self._asked):
            return False
        self.due_seconds = now_seconds + POLL_SECONDS
        # Later requests may know of a commit that this poll does not see.
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
