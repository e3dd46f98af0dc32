"""A serving ledger that several processes share: what it does besides `ledger.serving`.

Each hold is stored at once, and the database decides about it. Steps of accounts that another program
has locked are set aside for a while, as they would block those of all others.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from gateway.base.errors import GatewayError, LedgerUnavailable
from gateway.base.progress import States
from gateway.ledger.base import Account, Admission, Hold, Key
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.serving.memory import raise_to, take_hold
from gateway.ledger.serving.queue import Item, Queue, Report, confirm_wait, fail_wait
from gateway.ledger.serving.writer import BUSY_SECONDS, Writer

log = logging.getLogger("gateway.ledger")

ASIDE_SECONDS: Final = 0.5
"""The pause before the steps of a locked account are tried again. A try takes up to a tenth of this
time, and all other accounts wait for it."""
MOST_LISTED: Final = 20
"""Accounts in a log line, so that it stays readable."""
LOCKED: Final = (
    "another program has locked rows of accounts, whose requests wait; all others go on: %s. Look for"
    " it in pg_stat_activity"
)


@dataclass(slots=True)
class SharedReport(Report):
    in_full: list[Item] = field(default_factory=list)
    """Admissions whose hold was raised to their full cost, because other processes' holds left little
    money."""
    declined: list[tuple[Item, GatewayError]] = field(default_factory=list)
    """Admissions that the database refused, as other processes admit requests, too."""
    locked: set[Account] = field(default_factory=set)
    """Accounts that another program has locked: their items were left out."""
    freed: set[Account] = field(default_factory=set)
    """Accounts that are not locked any more."""


class Locks:
    """The accounts that another program has locked. Times are of the event loop's clock."""

    def __init__(self) -> None:
        self._since_seconds: dict[Account, float] = {}
        """When each account's lock was first noticed."""
        self._states = States("free")

    def is_older(self, account: Account, seconds: float, now_seconds: float) -> bool:
        return now_seconds - self._since_seconds.get(account, math.inf) >= seconds

    def note(self, report: SharedReport, now_seconds: float) -> None:
        for account in report.freed:
            self._since_seconds.pop(account, None)
        # Each failed try reports the same lock, which has lasted since the first report.
        for account in report.locked:
            self._since_seconds.setdefault(account, now_seconds)
        lasting = [
            one for one in self._since_seconds if self.is_older(one, BUSY_SECONDS, now_seconds)
        ]
        self.tell([account.name for account in lasting], now_seconds)

    def tell(self, accounts: list[str], now_seconds: float) -> None:
        if accounts:
            named = ", ".join(accounts[:MOST_LISTED])
            self._states.note("locked", now_seconds, log.warning, LOCKED, named)
        else:
            words = "no account is locked by another program any more"
            self._states.note("free", now_seconds, log.warning, words)

    def defer(self, seconds: float) -> None:
        for account in self._since_seconds:
            self._since_seconds[account] += seconds


class SharedQueue(Queue):
    def __init__(self, wake: Callable[[], None]) -> None:
        super().__init__(wake)
        self.locks = Locks()
        self._aside: dict[Account, dict[Hold, None]] = {}
        """Steps that wait for another program's lock, by account. They join a batch after
        `_take_back`."""
        self._taking_back: asyncio.TimerHandle | None = None

    @property
    def has_aside(self) -> bool:
        return bool(self._aside)

    def list_queued(self) -> Iterable[Hold]:
        return chain(self.holds, *self._aside.values())

    def add(self, hold: Hold) -> None:
        # New steps of a locked account go behind those that already wait for the lock, as the row must
        # be first.
        self._aside.get(hold.account, self.holds)[hold] = None
        self._wake()

    def set_aside(self, accounts: Container[Account]) -> None:
        """Keep the steps of these accounts out of the next batches, which they would block."""
        for hold in [one for one in self.holds if one.account in accounts]:
            del self.holds[hold]
            self._aside.setdefault(hold.account, {})[hold] = None
        if self._taking_back is None and self._aside:
            self._taking_back = self._loop.call_later(ASIDE_SECONDS, self._take_back)

    def _take_back(self) -> None:
        """Queue the steps that were set aside again."""
        self._taking_back = None
        # Behind what came since: that is of other accounts, as `add` puts these accounts' steps aside.
        for holds in self._aside.values():
            self.holds.update(holds)
        self._aside.clear()
        self._wake()

    def decline(self, item: Item, error: GatewayError) -> None:
        """Fail an admission that the database refused. A void that waits for it is done, too."""
        fail_wait(item.hold.admitted, error)
        # The caller may see the refusal before it settles; its later void must end at once.
        confirm_wait(self.drop(item.hold))


class SharedWriter(Writer):
    queue: SharedQueue
    queue_type = SharedQueue
    takes_back = True

    def is_locked(self, account: Account) -> bool:
        """Return whether another program's lock has blocked this account for `commit_seconds` or longer."""
        return self.queue.locks.is_older(account, self._commit_seconds, self._loop.time())

    def _end_steps(self, report: Report) -> None:
        """End the waits for declined items, too, and set the steps of locked accounts aside for a while."""
        assert isinstance(report, SharedReport)
        for item in report.in_full:
            item.hold.admission.hold_nano = item.hold.admission.full_nano
            raise_to(item.hold, item.hold.admission.full_nano)
        super()._end_steps(report)
        for item, refusal in report.declined:
            self.queue.decline(item, refusal)
        if report.locked or report.freed:
            self.queue.locks.note(report, self._loop.time())
            self.queue.set_aside(report.locked)

    def _is_finished(self) -> bool:
        # Steps set aside get more time: the other program may release its lock.
        return super()._is_finished() and (self._is_time_up() or not self.queue.has_aside)

    def _defer(self, seconds: float, now_seconds: float) -> None:
        super()._defer(seconds, now_seconds)
        self.queue.locks.defer(seconds)


class SharedLedger(ServingLedger):
    decides_alone = False
    _writer: SharedWriter

    def hold(self, key: Key, admission: Admission) -> Hold:
        """Queue the hold's row at once: the hold counts for all processes once its row is stored."""
        if not self._health.writable or self._writer.is_locked(key.account):
            raise LedgerUnavailable
        hold = take_hold(key, admission, self.clock)
        self._queue.open_holds += 1
        self._queue.admit(hold)
        return hold

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        before_nano = hold.amount_nano
        super().raise_hold(hold, amount_nano)
        # Other processes decide by the row.
        if hold.amount_nano > before_nano and not self._writer.is_ended:
            hold.raised = True
            self._queue.add(hold)
