"""The holds whose row or settlement is not committed, in order of arrival, and the waits for them.

First comes the contract of a store, which carries out the writer's rounds in one database: the items of
a round, and its report.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio import Future, TimerHandle
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Final, Protocol

from gateway.base.errors import GatewayError, InternalError, LedgerUnavailable
from gateway.ledger.base import Aside, AsideEnd, Hold, Settlement
from gateway.ledger.budget_records import Spending
from gateway.ledger.serving.memory import Snapshot, drop_hold, make_void

MAX_ITEMS: Final = 512
"""The most items of a batch: 33 columns of 512 rows stay below SQLite's 32,766 parameters."""


@dataclass(slots=True)
class Item:
    """One step of a request: its row is inserted, settled, or both; if neither, its hold is raised."""

    hold: Hold
    insert: bool
    settlement: Settlement | None

    @property
    def request_id(self) -> str:
        return self.hold.admission.request_id


@dataclass(slots=True)
class Report:
    """The result of a round. Items in none of the lists were not tried, or may be tried again."""

    polled: bool = False
    """True if the round read other connections' commits; `snapshot` has their changes."""
    snapshot: Snapshot | None = None
    balances_nano: dict[int, int] = field(default_factory=dict)
    spent_nano: dict[str, int] = field(default_factory=dict)
    spendings: dict[int, Spending] = field(default_factory=dict)
    done: list[Item] = field(default_factory=list)
    refused: list[tuple[Item, Exception]] = field(default_factory=list)
    """Bad items, which would make each batch fail."""
    unavailable: Exception | None = None
    """Why the database does not work."""
    is_brief: bool = False
    """Another process's transaction blocks this one: the next try may work at once."""
    ended: Exception | None = None
    """Why this process must not commit anything any more."""


class NotPendingError(Exception):
    """The request to settle does not exist or was settled before."""


RoundEnd = Callable[[Report | BaseException], None]


class Store(Protocol):
    """Carries out rounds, one after the other. The event loop never blocks on a round."""

    @property
    def log_bytes(self) -> int:
        """Return the size of the log of recent commits, as it was a moment ago; 0 if it lies elsewhere."""

    def start_round(self, items: Sequence[Item], *, polls: bool, report: RoundEnd) -> None:
        """Poll if asked to, then commit the items together, or one by one if one is bad.

        `report` is called on the loop with the result, or with the exception of a bug.
        """

    def start_aside(self, write: Aside, report: AsideEnd) -> None:
        """Write what is no part of the books, in a transaction of its own after the round under way."""

    def break_off(self) -> None:
        """Make a round that hangs fail, if possible."""


log = logging.getLogger("gateway.ledger")

LINGER_SECONDS: Final = 0.025
"""How long an admission lingers for its settlement (up to twice as long), so that a fast reply takes one
commit, even on a busy machine. After a kill the audit does not list younger requests."""


class Queue:
    """Only the event loop uses the queue. A hold stays in it until all its steps are committed."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` begins a round: at once, or behind the one under way."""
        self._wake = wake
        self._loop = asyncio.get_running_loop()
        self.holds: dict[Hold, None] = {}
        """Holds with steps for the next batches, in order. A hold with two steps is in it once."""
        self._fresh: list[Hold] = []
        self._older: list[Hold] = []
        """Admissions that linger; some may have been queued by now, as somebody waits for them."""
        self._ripening: TimerHandle | None = None
        self.open_holds = 0
        """Unresolved holds, including those that linger."""

    def list_queued(self) -> Iterable[Hold]:
        """Return the holds with steps for a batch."""
        return self.holds

    def linger(self, hold: Hold) -> None:
        """Let the hold's row linger, as nobody waits for it: it is queued later, or with its settlement."""
        self._fresh.append(hold)
        if self._ripening is None:
            self._ripening = self._loop.call_later(LINGER_SECONDS, self._ripen)

    def admit(self, hold: Hold) -> None:
        """Queue the hold's row, because its request waits for it."""
        hold.admitted = self._loop.create_future()
        hold.waiting_since_seconds = self._loop.time()
        self.add(hold)

    def add(self, hold: Hold) -> None:
        """Queue the hold's row, its settlement, or both, because somebody waits."""
        self.holds[hold] = None
        self._wake()

    def ripen_all(self) -> None:
        """Queue all lingering rows without starting a round."""
        self._queue_unawaited(self._older + self._fresh)
        self._older, self._fresh = [], []

    def _ripen(self) -> None:
        """Queue the rows that lingered at the last tick already, and begin a round if there are any.

        Two lists are needed because one timer serves all: each row lingers for at least one tick.
        """
        queued, ripe = len(self.holds), self._older
        self._older, self._fresh = self._fresh, []
        later = bool(self._older)
        self._ripening = self._loop.call_later(LINGER_SECONDS, self._ripen) if later else None
        self._queue_unawaited(ripe)
        if len(self.holds) > queued:
            self._wake()

    def _queue_unawaited(self, lingering: Iterable[Hold]) -> None:
        # Rows that somebody waits for by now are queued already.
        for hold in lingering:
            if hold.admitted is None and hold.settled is None:
                self.holds[hold] = None

    def find(self, request_id: str) -> Hold | None:
        holds = chain(self.list_queued(), self._older, self._fresh)
        return next((one for one in holds if one.admission.request_id == request_id), None)

    def make_batch(self) -> list[Item]:
        """Return the steps to commit next. They stay queued, as the commit may fail."""
        items = []
        for hold in islice(self.holds, MAX_ITEMS):
            hold.raised = False  # a later raise belongs to the next batch
            items.append(Item(hold, not hold.recorded, hold.settlement))
        return items

    def finish(self, item: Item) -> None:
        """End the waits for a step that is committed."""
        hold = item.hold
        hold.recorded = True
        if hold.admitted is not None:  # most rows are written with their end
            confirm_wait(hold.admitted)
        if hold.settlement is not item.settlement:
            return  # the settlement came or was withdrawn meanwhile: it goes into the next batch
        if item.settlement is not None:
            if drop_hold(hold):
                self.open_holds -= 1
            confirm_wait(hold.settled)
        if not hold.raised:  # otherwise it was raised meanwhile
            del self.holds[hold]

    def refuse(self, item: Item, error: Exception) -> None:
        """Fail a bad item alone and release its hold.

        A charge that cannot be written becomes a void, so that the request has a row all the same.
        """
        hold = item.hold
        log.error("request %s: the ledger refused it: %s", hold.admission.request_id, error)
        if item.settlement is not None and item.settlement.is_posted:
            # The hold stays queued: the next batch writes the void.
            hold.settlement = make_void(hold.admission)
            fail_wait(hold.settled, InternalError())
            return
        fail_wait(hold.admitted, InternalError())
        fail_wait(self.drop(hold), InternalError())

    def drop(self, hold: Hold) -> Future[None]:
        """Remove a hold that gets no row; return the wait that a later `settle` will return."""
        del self.holds[hold]
        if drop_hold(hold):
            self.open_holds -= 1
        if hold.settled is None:
            hold.settled = self._loop.create_future()
        return hold.settled

    def defer(self, seconds: float, now_seconds: float) -> None:
        """Let waits last longer by the time in which this process did not run."""
        for hold in self.list_queued():
            hold.waiting_since_seconds = min(hold.waiting_since_seconds + seconds, now_seconds)

    def expire(self, begun_by_seconds: float, but: Container[object] = ()) -> None:
        """Fail the waits that began by then, and void charges that are withdrawn when late."""
        for hold in self.list_queued():
            if hold.waiting_since_seconds > begun_by_seconds or hold in but:
                continue
            fail_wait(hold.admitted, LedgerUnavailable(should_retry=False))
            # Only if somebody waits and gets the error: nobody pays for a withheld reply.
            if fail_wait(hold.settled, LedgerUnavailable(should_retry=False)):
                _withdraw(hold)

    def fail_all(self) -> None:
        """Fail all waits, because nothing will be committed any more."""
        self.ripen_all()
        for hold in self.list_queued():
            fail_wait(hold.admitted, LedgerUnavailable(should_retry=False))
            fail_wait(hold.settled, LedgerUnavailable(should_retry=False))
            log.error("request %s: the ledger closed before it", hold.admission.request_id)


def _withdraw(hold: Hold) -> None:
    settlement = hold.settlement
    # A new object: the batch under way may have the old one, and `finish` compares them.
    if settlement is not None and settlement.withdraw_if_late and settlement.is_posted:
        hold.settlement = replace(settlement, outcome="ledger_error", cost_nano=0, status=503)


def confirm_wait(wait: Future[None] | None) -> None:
    if wait is not None and not wait.done():  # its task may have been cancelled
        wait.set_result(None)


def fail_wait(wait: Future[None] | None, error: GatewayError) -> bool:
    """Return whether somebody was still waiting."""
    if wait is None or wait.done():
        return False
    wait.set_exception(error)
    wait.exception()  # the handler may be gone; asyncio would report the error as never retrieved
    return True


def find_failure(wait: Future[None]) -> BaseException | None:
    """Return why the wait failed; None if it did not, or was cancelled."""
    return wait.exception() if wait.done() and not wait.cancelled() else None
