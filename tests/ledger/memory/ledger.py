"""The serving ledger in memory: the rules of `gateway.ledger.Ledger`, and timers for commits."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.errors import (
    BalanceHeld,
    GatewayError,
    InsufficientBalance,
    InternalError,
    LedgerUnavailable,
)
from gateway.ledger.base import COMMIT_SECONDS, Account, Admission, Hold, Key, Settlement
from gateway.ledger.call_records import Receipt, Spent
from gateway.ledger.key_records import Budget, EndedKey, refuse_spent
from gateway.ledger.records import MAX_INTEGER, LedgerMismatch
from gateway.ledger.serving.holds import MOST_SPENT_NANO, check_admission, make_void
from gateway.times import DAY_MS
from tests.ledger.memory.storage import MemoryStorage, Request

RETRY_SECONDS: Final = 0.01


class Disk:
    """How commits fare: at once and well, unless a script overrides it."""

    failing = False

    def take_seconds(self, settlement: Settlement | None) -> float:  # noqa: ARG002 - for scripts
        """Return how long the commit of a row (None) or a settlement takes; perhaps for ever."""
        return 0.0

    def refuses(self, hold: Hold) -> bool:  # noqa: ARG002 - for scripts
        """Return whether the row can never be stored."""
        return False


@dataclass(slots=True, eq=False)
class MemoryHold(Hold):
    request: Request | None = None
    """The committed row."""
    settlement: Settlement | None = None
    settled: asyncio.Future[None] | None = field(default=None, repr=False)
    tried: asyncio.Event = field(default_factory=asyncio.Event, repr=False)
    """Set when the row is committed or refused, or never will be either."""


class MemoryLedger:
    """Implements `gateway.ledger.Ledger`; made by `open`, or for a storage that nobody shares."""

    def __init__(
        self,
        storage: MemoryStorage,
        disk: Disk,
        *,
        clock: Callable[[], int],
        commit_seconds: float = COMMIT_SECONDS,
    ) -> None:
        self.writable = True
        self._storage = storage
        self._disk = disk
        self.clock = clock
        self._opened_ms = clock()
        self._commit_seconds = commit_seconds
        self._loop = asyncio.get_running_loop()
        self._queue: dict[str, MemoryHold] = {}
        self._due: deque[tuple[MemoryHold, bool]] = deque()
        """Steps whose time has come: a hold, and whether it ends or only begins."""
        self._ended = asyncio.Event()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        storage: MemoryStorage,
        disk: Disk,
        *,
        clock: Callable[[], int],
        commit_seconds: float = COMMIT_SECONDS,
    ) -> AsyncIterator[MemoryLedger]:
        """Audit and recover; at the end commit the queue. Raises LedgerMismatch."""
        report = storage.audit()
        if not report.ok:
            raise LedgerMismatch("; ".join(report.problems))
        storage.interrupt_pending(clock())
        ledger = cls(storage, disk, clock=clock, commit_seconds=commit_seconds)
        try:
            yield ledger
        finally:
            ledger._close()

    @property
    def open_holds(self) -> int:
        return sum(not hold.resolved for hold in self._queue.values())

    @property
    def log_bytes(self) -> int:
        return 0

    def find_key(self, digest: bytes) -> Key | None:
        """Find what lived at the start and is not revoked."""
        key = self._storage.keys.get(digest)
        return key if key is not None and key.is_live(self._opened_ms) else None

    async def read_ended_key(self, digest: bytes) -> EndedKey | None:
        key = self._storage.keys.get(digest)
        return None if key is None else EndedKey(key.revoked_ms, key.terms.expires_ms)

    def accounts(self) -> Iterable[Account]:
        return self._storage.accounts.values()

    def budgets(self) -> Iterable[Budget]:
        return {key.budget for key in self._storage.keys.values() if key.budget is not None}

    def hold(self, key: Key, admission: Admission) -> MemoryHold:
        if not self.writable:
            raise LedgerUnavailable
        open_holds = [one for one in self._queue.values() if not one.resolved]
        if check_funds(key, admission, open_holds) < admission.full_below_nano:
            admission.hold_nano = max(admission.hold_nano, admission.full_nano)
        hold = MemoryHold(admission, key.account, key, 0, budget=key.budget)
        _hold_more(hold, admission.hold_nano)
        self._queue.setdefault(admission.request_id, hold)
        self._commit_after(self._disk.take_seconds(None), hold, None)
        return hold

    async def confirm(self, hold: Hold) -> None:
        try:
            await self.wait_admitted(hold)
        except LedgerUnavailable:
            _ = self.settle(hold, make_void(hold.admission))
            raise

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        if not hold.resolved:
            _hold_more(hold, amount_nano - hold.amount_nano)

    async def wait_admitted(self, hold: Hold) -> None:
        assert isinstance(hold, MemoryHold)
        try:
            async with asyncio.timeout(self._commit_seconds):
                await hold.tried.wait()
        except TimeoutError as error:
            raise LedgerUnavailable(should_retry=False) from error
        if hold.request is None:
            raise InternalError if hold.resolved else LedgerUnavailable(should_retry=False)

    def decline(self, hold: Hold) -> None:
        """Drop a hold whose row is not committed, as `confirm` of a shared ledger may."""
        assert isinstance(hold, MemoryHold)
        assert hold.request is None
        _drop(hold)
        del self._queue[hold.admission.request_id]
        hold.tried.set()

    def settle(self, hold: Hold, settlement: Settlement) -> asyncio.Future[None]:
        assert isinstance(hold, MemoryHold)
        if hold.settled is None:
            hold.settled = self._loop.create_future()
            hold.settlement = settlement
            _hold_more(hold, settlement.cost_nano - hold.amount_nano)
            if self._ended.is_set():
                _fail(hold.settled, LedgerUnavailable(should_retry=False))
            else:
                self._commit_after(self._disk.take_seconds(settlement), hold, settlement)
                self._loop.call_later(self._commit_seconds, self._expire, hold)
        return hold.settled

    def note_refusal(self, *refusal: object) -> None:
        """Ignore it: only whole books tell of it."""

    def note_upstream_call(self, *call: object) -> None:
        """Ignore it, likewise."""

    async def wait_ended(self) -> None:
        await self._ended.wait()

    async def refresh(self) -> None:
        """Do nothing: what the books change is in force at once."""

    async def read_receipt(self, request_id: str) -> Receipt | None:
        hold = self._queue.get(request_id)
        if hold is not None and hold.settled is not None:
            await asyncio.wait((hold.settled,))
        request = self._storage.requests.get(request_id)
        if request is None and hold is not None:
            request = Request(hold.admission, hold.key, hold.budget)
        return None if request is None else self._storage.make_receipt(request)

    async def read_spent(self, key: Key, today: int) -> Spent:
        def since(day: int) -> int:
            ends = (one.settlement for one in self._storage.requests.values() if one.key is key)
            return sum(end.cost_nano for end in ends if end and end.ended_ms // DAY_MS >= day)

        return Spent(since(today), since(today - 6), since(today - 29))

    def _commit_after(
        self, seconds: float, hold: MemoryHold, settlement: Settlement | None
    ) -> None:
        if not math.isinf(seconds):
            self._loop.call_later(seconds, self._commit, (hold, settlement is not None))

    def _commit(self, *steps: tuple[MemoryHold, bool]) -> None:
        """Commit, in the order of their time, these steps and those that failed before."""
        self._due += steps
        self.writable = not self._disk.failing and not self._ended.is_set()
        if self._disk.failing and self._due and not self._ended.is_set():
            self._loop.call_later(RETRY_SECONDS, self._commit)
        while self.writable and self._due:
            hold, ends = self._due.popleft()
            if not hold.resolved and hold.request is None:
                self._record(hold)
            if ends and not hold.resolved:
                self._finish(hold)

    def _record(self, hold: MemoryHold) -> None:
        request_id = hold.admission.request_id
        if request_id in self._storage.requests or self._disk.refuses(hold):
            self._refuse(hold)
        else:
            hold.request = Request(hold.admission, hold.key, hold.budget)
            self._storage.requests[request_id] = hold.request
        hold.tried.set()

    def _refuse(self, hold: MemoryHold) -> None:
        _drop(hold)
        if self._queue.get(hold.admission.request_id) is hold:
            del self._queue[hold.admission.request_id]
        if hold.settled is None:
            hold.settled = self._loop.create_future()
        _fail(hold.settled, InternalError())

    def _finish(self, hold: MemoryHold) -> None:
        assert hold.request is not None
        assert hold.settlement is not None
        assert hold.settled is not None
        self._storage.settle(hold.request, hold.settlement, self.clock())
        _drop(hold)
        del self._queue[hold.admission.request_id]
        if not hold.settled.done():
            hold.settled.set_result(None)

    def _expire(self, hold: MemoryHold) -> None:
        """Fail the wait for a settlement, and withdraw a charge of which nothing was delivered."""
        assert hold.settlement is not None
        ended = hold.settlement
        if _fail(hold.settled, LedgerUnavailable(should_retry=False)) and ended.withdraw_if_late:
            if ended.is_posted:
                ended = replace(ended, outcome="ledger_error", cost_nano=0, status=503)
            hold.settlement = ended

    def _close(self) -> None:
        self._commit(*[(hold, hold.settlement is not None) for hold in self._queue.values()])
        self._ended.set()
        self.writable = False
        for hold in self._queue.values():
            hold.tried.set()
            _fail(hold.settled, LedgerUnavailable(should_retry=False))


def check_funds(key: Key, admission: Admission, open_holds: Sequence[Hold]) -> int:
    """Decide who may spend, and return what is left for it; the order says which refusal counts."""
    cap_nano = MOST_SPENT_NANO if key.terms.cap_nano is None else key.terms.cap_nano
    check_admission(admission)
    if key.account.balance_nano <= 0:
        raise InsufficientBalance("balance")
    if key.spent_nano >= cap_nano:
        raise InsufficientBalance("This key's spending cap is reached.")
    if key.budget is not None and key.budget.is_spent(admission.started_ms):
        raise refuse_spent(key.budget)
    most = [(one, max(one.amount_nano, one.admission.full_nano)) for one in open_holds]
    of_account = sum(nano for one, nano in most if one.account is key.account)
    of_line = sum(nano for one, nano in most if one.key.line is key.line)
    lefts = [key.account.balance_nano - of_account, cap_nano - key.spent_nano - of_line]
    if lefts[0] <= 0 or of_account + max(admission.hold_nano, admission.full_nano) > MAX_INTEGER:
        raise BalanceHeld("balance")
    if lefts[1] <= 0:
        raise BalanceHeld("The rest of the spending cap is held.")
    if (budget := key.budget) is not None:
        of_budget = sum(nano for one, nano in most if one.budget is budget)
        spent_nano = budget.find_spent_nano(admission.started_ms)
        lefts.append(budget.allowance.amount_nano - spent_nano - of_budget)
        if lefts[2] <= 0:
            raise BalanceHeld(f"The rest of {budget.title} is held.")
    return min(lefts)


def _hold_more(hold: Hold, amount_nano: int) -> None:
    more_nano = max(amount_nano, 0)
    hold.amount_nano += more_nano
    hold.account.held_nano += more_nano
    hold.key.line.held_nano += more_nano
    if hold.budget is not None:
        hold.budget.held_nano += more_nano


def _drop(hold: Hold) -> None:
    assert not hold.resolved, "a hold is released once"
    hold.resolved = True
    hold.account.held_nano -= hold.amount_nano
    hold.key.line.held_nano -= hold.amount_nano
    if hold.budget is not None:
        hold.budget.held_nano -= hold.amount_nano


def _fail(wait: asyncio.Future[None] | None, error: GatewayError) -> bool:
    """Fail a wait; return whether it was still going on."""
    if wait is None or wait.done():
        return False
    wait.set_exception(error)
    wait.exception()  # nobody may be waiting, and asyncio would report the error as unseen
    return True
