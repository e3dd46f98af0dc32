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
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from gateway.base.deadlines import LATE_SECONDS
from gateway.base.process import ExitCode
from gateway.base.progress import States
from gateway.ledger.serving.memory import Memory, Snapshot
from gateway.ledger.serving.queue import Item, Queue, Report, Store

log = logging.getLogger("gateway.ledger")

SHARE_SECONDS: Final = 0.005
"""How long a requested poll is delayed, so that one poll serves several requests."""
POLL_SECONDS: Final = 0.25
"""Seconds, plus the time of a batch, within which commits of other processes are seen: a key that an operator
revokes should not go on working."""
RETRY_SECONDS: Final = 0.2
"""The pause after a batch that failed, so that a full disk is not tried in a busy loop."""
PROVEN_SECONDS: Final = 1.0
"""How long a commit counts as proof that the next will work. If the disk fills up in this time, the
requests of this time fail and cost nothing."""
BUSY_SECONDS: Final = 1
"""How long a locked database is retried before it counts as an outage. Other programs' writes take
less."""


class Health:
    """Whether commits work, noted by the writer after each round. Times are the event loop's."""

    def __init__(self) -> None:
        self._states = States("works")
        self.writable = True
        self.should_pause = False
        """False if the next try may work at once: other programs' locks are short."""
        self._busy_since_seconds: float | None = None
        self.proven_until_seconds = -math.inf
        """Until then the last commit proves that the next will work, unless it is in doubt."""

    def note_success(self, now_seconds: float) -> None:
        self.writable = True
        self.should_pause = False
        self._busy_since_seconds = None
        if self._states.logged != "works":
            self._states.note("works", now_seconds, log.warning, "the ledger can be written again")

    def note_failure(self, error: Exception, now_seconds: float, *, is_brief: bool = False) -> None:
        self.should_pause = not is_brief
        if is_brief:
            if self._busy_since_seconds is None:
                self._busy_since_seconds = now_seconds
            if now_seconds - self._busy_since_seconds < BUSY_SECONDS:
                return
        self.writable = False
        self.proven_until_seconds = -math.inf
        words = "the ledger cannot be written: %s"
        self._states.note("fails", now_seconds, log.critical, words, error)

    def note_hang(self, seconds: float, now_seconds: float) -> None:
        self.writable = False
        words = "a commit has been under way for %s s"
        self._states.note("fails", now_seconds, log.error, words, seconds)


class Writer:
    """Commits the queue's steps in order, and keeps memory equal to the committed state."""

    queue_type: type[Queue] = Queue
    takes_back = False
    """Whether the store can take back a charge that was committed after its void had been queued."""

    def __init__(
        self,
        store: Store,
        memory: Memory,
        *,
        commit_seconds: float,
        hang_seconds: float | None = None,
    ) -> None:
        """`hang_seconds`: after which a round is broken off; None means `commit_seconds`."""
        self.queue = self.queue_type(self.wake)
        self.health = Health()
        self.ended = asyncio.Event()
        """Set when nothing will be committed any more: after `close`, or after a bug."""
        self.is_ended = False
        self.failure: Exception | None = None
        """Why the writer ended, if this process must not serve any more."""
        self._store = store
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        self._is_busy = False
        """True from the beginning of a round until its end, or the end of a pause after it."""
        self._is_wanted = False
        """True if a round should begin behind the one under way."""
        self._poll_due_seconds = self._loop.time() + POLL_SECONDS
        self._asked: list[asyncio.Future[None]] = []
        """Waits for the next poll that begins, which they share."""
        self._polling: list[asyncio.Future[None]] = []
        """Waits that the poll under way ends; if it fails, the next poll ends them."""
        self._commit_seconds = commit_seconds
        self._patience_seconds = commit_seconds if hang_seconds is None else hang_seconds
        self.commit_watchers: list[Callable[[int, float], object]] = []
        """Called after each commit with the number of its requests and its seconds, on the event loop."""
        self.change_watchers: list[Callable[[], object]] = []
        self._give_up_seconds: float | None = None
        self._batch: Sequence[Item] = ()
        """The items of the commit under way. It counts as hanging after `_hang_seconds`."""
        self._begun_seconds: float = 0
        self._hang_seconds = math.inf
        self._watch_due_seconds = self._loop.time() + POLL_SECONDS
        self._loop.call_at(self._watch_due_seconds, self._run, self._watch)

    async def refresh(self) -> None:
        """Return once the present commits of other processes are in memory."""
        if self.is_ended:
            return
        # Delayed, as a poll takes a round: one poll serves all requests within this time.
        if not self._asked:
            self._loop.call_later(SHARE_SECONDS, self.wake)
        polled: asyncio.Future[None] = self._loop.create_future()
        self._asked.append(polled)
        await polled

    def poll(self) -> None:
        """Poll in the next round, which begins now or after the one under way."""
        self._poll_due_seconds = self._loop.time()
        self.wake()

    def wake(self) -> None:
        """Begin a round at once or after the one under way. It takes all steps queued by then."""
        if self._is_busy:
            self._is_wanted = True
        else:
            self._run(self._begin)

    def close(self) -> None:
        """End when all is committed, or commits failed for `commit_seconds`."""
        self._give_up_seconds = self._loop.time() + self._commit_seconds
        # Lingering rows are in no batch yet, and the timer may fire too late.
        self.queue.ripen_all()
        self.wake()

    def _run(self, step: Callable[..., None], *arguments: object) -> None:
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
        self._is_busy, self._is_wanted = True, False
        # Set before the store gets the batch: it may report in the same call.
        self._begun_seconds = now_seconds
        self._hang_seconds = now_seconds + self._patience_seconds
        self._batch = batch = self.queue.make_batch()
        # Not in each round: a busy ledger has hundreds of rounds a second, and a poll reads the database.
        polls = not batch or bool(self._asked) or now_seconds >= self._poll_due_seconds
        if polls:
            self._poll_due_seconds = now_seconds + POLL_SECONDS
            # Later requests may know of a commit that this poll does not see.
            self._polling += self._asked
            self._asked.clear()
        self._store.start_round(batch, polls=polls, report=partial(self._run, self._take_over))

    def _take_over(self, report: Report | BaseException) -> None:
        """Put the committed values into memory, end the waits for them, and go on."""
        self._hang_seconds = math.inf
        self._batch = ()
        if isinstance(report, BaseException):
            raise report  # a bug: `_run` ends the writer, as nobody knows what was committed
        # The poll came before the batch's commit, so its balances are older.
        if report.snapshot is not None:
            self._apply(report.snapshot)
        self._memory.assign(report.balances_nano, report.spent_nano, report.spendings)
        if report.polled:
            self._end_polls()
        # After memory was updated, so that resumed tasks see the new balance.
        self._end_steps(report)
        if report.ended is not None:
            self.failure = report.ended
            self._end()
            return
        if report.unavailable is None:
            self.health.note_success(self._begun_seconds)
        else:
            now_seconds = self._loop.time()
            self.health.note_failure(report.unavailable, now_seconds, is_brief=report.is_brief)
            # The batch was certainly not committed, so its waits may fail at once.
            self._expire()
        if self._give_up_seconds is not None and self._is_finished():
            self._end()
        elif self.health.should_pause:
            # Busy stays set during the pause, so that no `wake` tries a broken disk in a loop.
            self._loop.call_later(RETRY_SECONDS, self._run, self._begin)
        elif self._is_wanted or self.queue.holds:
            self._begin()
        else:
            self._is_busy = False

    def _apply(self, snapshot: Snapshot) -> None:
        """Take over what others changed, and tell those who watch for changes that concern extras."""
        self._memory.apply(snapshot)
        if snapshot.for_extras:
            for tell in self.change_watchers:
                tell()

    def _end_polls(self) -> None:
        for wait in self._polling:
            if not wait.done():  # its task may have been cancelled
                wait.set_result(None)
        self._polling.clear()

    def _end_steps(self, report: Report) -> None:
        """End the waits for items that were committed or refused."""
        if report.done:
            # The disk may have filled up during the commit, so it proves only its beginning.
            self.health.proven_until_seconds = self._begun_seconds + PROVEN_SECONDS
            for watch in self.commit_watchers:
                watch(len(report.done), self._loop.time() - self._begun_seconds)
        for item in report.done:
            self.queue.finish(item)
        for item, error in report.refused:
            self.queue.refuse(item, error)
            # It should have worked, so earlier commits prove nothing.
            self.health.proven_until_seconds = -math.inf

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
        elif self._poll_due_seconds <= now_seconds:
            self.wake()
        times = (self._poll_due_seconds, self._hang_seconds, now_seconds + POLL_SECONDS)
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
        # The settlements under way may be committed, so their waits go on. If only the row is under way,
        # the settlement is still queued and can become a void.
        ends = {item.hold for item in self._batch if item.settlement is not None}
        undecided = () if self.takes_back else ends
        self.queue.expire(now_seconds - self._commit_seconds, undecided)

    def _defer(self, seconds: float, now_seconds: float) -> None:
        """Let all waits last longer by the time in which this process did not run."""
        self._hang_seconds += seconds
        self.queue.defer(seconds, now_seconds)

    def _end(self) -> None:
        # Set first, so that tasks resumed below cannot queue anything.
        self.is_ended = True
        self.ended.set()
        self.health.writable = False
        self._polling += self._asked
        self._end_polls()
        self.queue.fail_all()
