"""The contract of a serving ledger, the same for each database: hold, confirm, settle.

    pending ── settle(a cost) ──> posted    (one charge entry, unique per request)
            ── settle(no cost) ─> voided    (no entry)
            ── confirm refuses    (no row)

`sqlite.serving` opens it over its store. An extra may have one that several processes share.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from gateway.base.errors import InternalError, LedgerUnavailable
from gateway.base.progress import Progress, Steps
from gateway.base.turns import spawn
from gateway.ledger.base import Account, Admission, Aside, AsideEnd, Hold, Key, Settlement
from gateway.ledger.budget_records import Budget
from gateway.ledger.call_records import Receipt, Spent
from gateway.ledger.key_records import EndedKey
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.memory import (
    Memory,
    make_pending_receipt,
    make_void,
    raise_to,
    take_hold,
)
from gateway.ledger.serving.queue import Store, fail_wait, find_failure
from gateway.ledger.serving.writer import Writer

log = logging.getLogger("gateway.ledger")

TELL_SECONDS: Final = 10.0
"""The pause between two log lines about a start. Most starts take less time and log nothing."""


class Reader(Protocol):
    """Reads records that are not in memory. Raises LedgerUnavailable."""

    async def read_receipt(self, request_id: str) -> Receipt | None: ...

    async def read_spent(self, key: Key, today: int) -> Spent: ...

    async def read_ended_key(self, digest: bytes) -> EndedKey | None: ...

    async def fetch(
        self, sql: str, values: Mapping[str, str | int]
    ) -> Iterable[Sequence[str | int]]: ...


class ServingLedger:
    """Accounts, keys, holds and charges of one serving process, on one event loop.

    `hold` checks and reserves in one synchronous step, so two requests of a process cannot use the same
    money. It decides by this process's memory. `confirm` decides by the state that all serving processes
    share, before the request goes to a provider. `settle` queues the charge (or the void) synchronously
    and returns a wait that ends with its commit; the caller's last bytes wait for it. Each hold is
    confirmed and settled at most once.

    In memory `Account.balance_nano` is *assigned* from commits, never computed.
    """

    decides_alone = True
    """Whether no other process admits requests."""

    def __init__(
        self, store: Store, memory: Memory, reader: Reader, clock: Callable[[], int], writer: Writer
    ) -> None:
        """`clock` is the time in Unix milliseconds, the same for all that serve from the ledger."""
        self.clock = clock
        self._store = store
        self._memory = memory
        self._writer = writer
        self._queue = writer.queue
        self._health = writer.health
        self._reader = reader
        self.commit_watchers = writer.commit_watchers
        """Called after each commit with its number of requests and its seconds."""
        self.change_watchers = writer.change_watchers
        """Called when other processes changed what extras keep in memory."""
        self.at_end: list[Callable[[], Awaitable[object]]] = []
        """Awaited once the queue is committed, to write what is no part of the books."""
        self._loop = asyncio.get_running_loop()
        # Bound, and no method, as each request calls it.
        self.find_key = memory.find_key

    @property
    def writable(self) -> bool:
        """Return False while commits fail (disk full, read-only, I/O error): admit nothing."""
        return self._health.writable

    @property
    def open_holds(self) -> int:
        """Return the number of holds whose settlement is not committed."""
        return self._queue.open_holds

    @property
    def log_bytes(self) -> int:
        """Return the recent size of the log of commits; 0 if it is not on this machine."""
        return self._store.log_bytes

    def accounts(self) -> Iterable[Account]:
        """Return all accounts, as memory has them."""
        return self._memory.accounts()

    def budgets(self) -> Iterable[Budget]:
        """Return the budgets of live keys and of holds."""
        return self._memory.budgets()

    async def refresh(self) -> None:
        """Return once the present commits of other processes are in memory."""
        await self._writer.refresh()

    def hold(self, key: Key, admission: Admission) -> Hold:
        """Check and reserve in one synchronous step, and queue the request's row.

        A credit of another process may not be in memory yet, so `api.keys` polls before it refuses.
        Otherwise memory has no less than the ledger, and where processes share it, `confirm` decides.

        Raises:
            ValueError: the hold is negative.
            NoFunds: balance, cap or budget are spent, or held by others.
            LedgerUnavailable: commits fail at the moment, or commits of this account do.
        """
        if not self._health.writable:
            raise LedgerUnavailable
        hold = take_hold(key, admission, self.clock)
        self._queue.open_holds += 1
        # Nobody waits for this row. If the reply is fast, the row and the charge are one commit.
        self._queue.linger(hold)
        return hold

    async def confirm(self, hold: Hold) -> None:
        """Return once the hold is in force for all processes that serve from this ledger.

        Await it once, before the request goes to a provider. It takes `commit_seconds` at most. After a
        refusal, memory shows the values that caused it. The hold may be settled meanwhile; a refusal
        then counts as a void.

        Raises NoFunds, RateLimited, LedgerUnavailable, InternalError; then
        there is nothing to settle. After LedgerUnavailable the money is held until a void is committed.
        """
        # If a commit has just worked, the row may be written together with its end: `hold` checked it,
        # so only a disk that failed a moment ago can refuse it.
        health, now_seconds = self._health, self._loop.time()
        if self.decides_alone and health.writable and now_seconds < health.proven_until_seconds:
            return
        try:
            await self.wait_admitted(hold)
        except LedgerUnavailable:
            # The row may still be committed. Without a void it would hold money until a restart.
            _ = self.settle(hold, make_void(hold.admission))
            raise

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        """Raise the hold to `amount_nano`, as the request used more than expected. It is never lowered."""
        if not hold.resolved and hold.settlement is None:
            raise_to(hold, amount_nano)

    async def wait_admitted(self, hold: Hold) -> None:
        """Return once the request's row is committed. Await it before the caller's first byte.

        Raises:
            LedgerUnavailable: the row could not be committed within `commit_seconds`.
            InternalError: the ledger refused this row for good.
        """
        if hold.recorded:
            return
        if hold.resolved:  # resolved without a row: the ledger refused it
            refusal = None if hold.admitted is None else find_failure(hold.admitted)
            raise InternalError if refusal is None else refusal
        if self._writer.is_ended:
            raise LedgerUnavailable(should_retry=False)
        # A cancelled task has cancelled its wait, so the next caller gets a new one.
        if hold.admitted is None or hold.admitted.cancelled():
            self._queue.ripen_all()  # a commit is due, and more rows make it hardly longer
            self._queue.admit(hold)
        assert hold.admitted is not None
        await hold.admitted

    def settle(self, hold: Hold, settlement: Settlement) -> asyncio.Future[None]:
        """Queue the charge or the void, in this call; awaiting the result waits for the commit.

        The hold is raised to the charge at once and dropped when the charge is committed. The result
        need not be awaited, and cancelling the wait does not cancel the charge. A second call changes
        nothing; its result ends like the first.

        Awaiting raises LedgerUnavailable if the commit takes longer than `commit_seconds`. A charge with
        `withdraw_if_late` is then voided; other charges stay queued until commits work again. Awaiting
        raises InternalError if the ledger refused this request for good.
        """
        if hold.settled is None:
            hold.settled = self._loop.create_future()
            hold.settlement = settlement
            hold.waiting_since_seconds = self._loop.time()
            # Until the commit, other requests must not spend the cost beyond the hold.
            if settlement.cost_nano > hold.amount_nano:
                raise_to(hold, settlement.cost_nano)
            if self._writer.is_ended:
                fail_wait(hold.settled, LedgerUnavailable(should_retry=False))
            else:
                self._queue.add(hold)
        return hold.settled

    async def wait_ended(self) -> None:
        """Return when nothing will be committed any more: after `close`, or after a bug.

        Raises LedgerError if another process has taken this one for dead.
        """
        await self._writer.ended.wait()
        if self._writer.failure is not None:
            raise self._writer.failure

    async def read_receipt(self, request_id: str) -> Receipt | None:
        """Return the receipt of a request, or None if there is no request of that id.

        Requests in flight, and those whose end cannot be committed at present, are pending.
        Raises LedgerUnavailable if the ledger cannot be read.
        """
        hold = self._queue.find(request_id)
        # Callers ask a moment after their reply, when the charge's commit may be under way.
        if hold is not None and hold.settled is not None:
            await asyncio.wait((hold.settled,))
        if hold is not None and not hold.resolved:
            return make_pending_receipt(hold)
        return await self._reader.read_receipt(request_id)

    async def read_spent(self, key: Key, today: int) -> Spent:
        """Return what a key was charged up to `today`, a UTC day. Raises LedgerUnavailable."""
        return await self._reader.read_spent(key, today)

    async def read_ended_key(self, digest: bytes) -> EndedKey | None:
        """Return when a key that is not in memory ended, or None. Raises LedgerUnavailable."""
        return await self._reader.read_ended_key(digest)

    async def fetch(
        self, sql: str, values: Mapping[str, str | int]
    ) -> Iterable[Sequence[str | int]]:
        """Return the rows of a statement of an extra. Raises LedgerUnavailable."""
        return await self._reader.fetch(sql, values)

    def start_aside(self, write: Aside, report: AsideEnd) -> None:
        """Write what is no part of the books, behind the round under way."""
        self._store.start_aside(write, report)

    async def close(self) -> None:
        """Commit the queue, or give up after `commit_seconds`; then let others write the last of theirs."""
        self._writer.close()
        await self._writer.ended.wait()
        for write in self.at_end:
            await write()


@asynccontextmanager
async def reporting(tell: Callable[[str], None]) -> AsyncIterator[Progress]:
    """Report the progress of a start: a large ledger takes many seconds to migrate, prove and read.

    Yields what is told of it, on any thread. `tell` is called every ten seconds.
    """
    steps, is_over, starter = Steps(), False, asyncio.current_task()
    assert starter is not None
    steps("opening the database")

    def report(step: str, done: int = 0, total: int = 0, unit: str = "", /) -> None:
        # By a signal. This ends the thread, too, for which the start and then the process wait.
        if is_over or starter.cancelling():
            raise LedgerError("the start was broken off")
        steps(step, done, total, unit)

    async def run() -> None:
        while True:
            await asyncio.sleep(TELL_SECONDS)
            tell(steps.describe())

    task = spawn(run(), name="progress")
    try:
        yield report
    finally:
        is_over = True
        task.cancel()
