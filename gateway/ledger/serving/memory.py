"""Accounts, live keys and holds in memory. No I/O: a request reads no row.

Keys that end are dropped, since holders may make new ones all day: revoked ones at once, expired
ones whenever the number of keys has doubled. Requests in flight keep theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakValueDictionary

from gateway.ledger.base import Account, Admission, Hold, Key, Settlement
from gateway.ledger.budget_records import Budget, Spending
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.receipts import Receipt
from gateway.ledger.serving.refusals import refuse_funds

KEYS_BEFORE_SWEEP: Final = 1024
"""With fewer keys in memory, expired ones do not matter."""


@dataclass(slots=True)
class KeyRow:
    """A key as it is committed. It is not frozen, as a start makes one for every key."""

    id: str
    account_id: int
    digest: bytes
    terms: KeyTerms
    revoked_ms: int | None
    spent_nano: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Committed accounts, budgets and keys: all that matter, or those that other processes changed."""

    accounts: tuple[Account, ...]
    keys: tuple[KeyRow, ...]
    budgets: tuple[Budget, ...] = ()
    """Those of the keys, and others."""


@dataclass(slots=True, eq=False)
class QueuedHold(Hold):
    """A hold with its state in the writer's queue."""

    recorded: bool = False
    """True when the request's row is committed."""
    raised: bool = False
    """True when the amount was raised since the last batch, and the database must know."""
    settlement: Settlement | None = None
    admitted: asyncio.Future[None] | None = field(default=None, repr=False)
    """Done when the request's row is committed; made when somebody first waits for that."""
    settled: asyncio.Future[None] | None = field(default=None, repr=False)
    """Done when the settlement is committed; made by `settle`."""
    waiting_since_seconds: float = 0
    """The time at which somebody began to wait for the next step, on the event loop's clock."""


class Memory:
    """The state that holds are decided on. Balances are assigned from commits, never computed."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._accounts: dict[int, Account] = {}
        self._keys: dict[str, Key] = {}
        self._keys_by_digest: dict[bytes, Key] = {}
        self._budgets: WeakValueDictionary[int, Budget] = WeakValueDictionary()
        """Kept by their keys and their holds."""
        self._sweep_above = KEYS_BEFORE_SWEEP

    def accounts(self) -> Iterable[Account]:
        return self._accounts.values()

    def budgets(self) -> Iterable[Budget]:
        return self._budgets.values()

    def find_key(self, digest: bytes) -> Key | None:
        return self._keys_by_digest.get(digest)

    def apply(self, snapshot: Snapshot) -> None:
        """Take rows over; known accounts and keys stay the same objects."""
        for account in snapshot.accounts:
            self._apply_account(account)
        budgets = {row.id: self._apply_budget(row) for row in snapshot.budgets}
        for key in snapshot.keys:
            self._apply_key(key, budgets)
        if len(self._keys) > self._sweep_above:
            self._sweep()

    def assign(
        self,
        balances_nano: Mapping[int, int],
        spent_nano: Mapping[str, int],
        spendings: Mapping[int, Spending],
    ) -> None:
        for account_id, balance in balances_nano.items():
            self._accounts[account_id].balance_nano = balance
        for key_id, spent in spent_nano.items():
            if key_id in self._keys:  # else it ended while the request was in flight
                self._keys[key_id].spent_nano = spent
        for budget_id, spending in spendings.items():
            if (budget := self._budgets.get(budget_id)) is not None:
                budget.spending = spending

    def _apply_account(self, row: Account) -> None:
        account = self._accounts.setdefault(row.id, row)
        if account is row:
            return
        account.name = row.name
        account.suspended = row.suspended
        account.balance_nano = row.balance_nano
        if account.terms != row.terms:
            account.terms = row.terms

    def _apply_budget(self, row: Budget) -> Budget:
        budget = self._budgets.setdefault(row.id, row)
        if budget is not row:
            budget.name, budget.allowance = row.name, row.allowance
            budget.spending = row.spending
        return budget

    def _apply_key(self, row: KeyRow, budgets: Mapping[int, Budget]) -> None:
        budget = None if row.terms.budget_id is None else budgets[row.terms.budget_id]
        key = self._keys.get(row.id)
        if key is None:
            if row.revoked_ms is not None:
                return
            account = self._accounts[row.account_id]
            key = Key(row.id, account, row.terms, spent_nano=row.spent_nano, budget=budget)
            self._keys[row.id] = self._keys_by_digest[row.digest] = key
            return
        if row.revoked_ms is not None:
            del self._keys[row.id], self._keys_by_digest[row.digest]
        if key.terms != row.terms:
            key.terms = row.terms
        key.revoked_ms = row.revoked_ms
        key.spent_nano = row.spent_nano
        key.budget = budget

    def _sweep(self) -> None:
        now_ms = self._clock()
        live = {digest: key for digest, key in self._keys_by_digest.items() if key.is_live(now_ms)}
        self._keys_by_digest = live
        self._keys = {key.id: key for key in live.values()}
        self._sweep_above = max(2 * len(live), KEYS_BEFORE_SWEEP)


def take_hold(key: Key, admission: Admission) -> QueuedHold:
    """Check and reserve in one step.

    Raises:
        InsufficientBalance: the balance is not positive, or the key's cap or budget is spent.
        BalanceHeld: the rest is positive, but requests in flight hold all of it.
    """
    account, budget, amount_nano = key.account, key.budget, admission.hold_nano
    if amount_nano < 0:
        raise ValueError("a hold cannot be negative")
    _require_funds(key, admission.started_ms)
    account.held_nano += amount_nano
    key.held_nano += amount_nano
    if budget is not None:
        budget.held_nano += amount_nano
    return QueuedHold(admission, account, key, amount_nano, budget=budget)


def _require_funds(key: Key, now_ms: int) -> None:
    """Refuse what is spent before what is held: only the latter is worth another try."""
    account, budget, cap_nano = key.account, key.budget, key.terms.cap_nano
    if account.balance_nano <= 0:
        raise refuse_funds("balance", budget)
    if cap_nano is not None and key.spent_nano >= cap_nano:
        raise refuse_funds("cap", budget)
    if budget is not None and budget.is_spent(now_ms):
        raise refuse_funds("budget", budget)
    if account.available_nano <= 0:
        raise refuse_funds("balance held", budget)
    if cap_nano is not None and cap_nano - key.spent_nano - key.held_nano <= 0:
        raise refuse_funds("cap held", budget)
    if budget is not None and budget.is_spent(now_ms, with_held=True):
        raise refuse_funds("budget held", budget)


def raise_hold(hold: Hold, amount_nano: int) -> None:
    """Raise the hold to the true cost if that exceeds it."""
    more = amount_nano - hold.amount_nano
    if more > 0:
        hold.amount_nano += more
        hold.account.held_nano += more
        hold.key.held_nano += more
        if hold.budget is not None:
            hold.budget.held_nano += more


def drop_hold(hold: Hold) -> None:
    """Release the hold, at most once."""
    if hold.resolved:
        return
    hold.resolved = True
    hold.account.held_nano -= hold.amount_nano
    hold.key.held_nano -= hold.amount_nano
    if hold.budget is not None:
        hold.budget.held_nano -= hold.amount_nano


def make_pending_receipt(hold: Hold) -> Receipt:
    """Return the receipt of a request whose row or end is not committed."""
    admission = hold.admission
    return Receipt(
        request_id=admission.request_id,
        key_id=hold.key.id,
        state="pending",
        outcome="pending",
        model=admission.model,
        provider=admission.provider,
        stream=admission.stream,
        price=admission.price,
        hold_nano=admission.hold_nano,
        started_ms=admission.started_ms,
    )
