"""Accounts and live keys in memory. No I/O: a request reads no row.

Keys that end are dropped, since holders may make new ones all day: revoked ones at once, expired
ones whenever the number of keys has doubled. Requests in flight keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakValueDictionary

from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import Budget, KeyTerms, Spending

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
    origin_id: str
    """The first key of its line."""
    spent_nano: int
    """The sum of the line's requests."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Committed accounts, budgets and keys: all that matter, or those that other processes changed."""

    accounts: tuple[Account, ...]
    keys: tuple[KeyRow, ...]
    budgets: tuple[Budget, ...] = ()
    """Those of the keys, and others."""


class Memory:
    """The state that holds are decided on. Balances are assigned from commits, never computed."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._accounts: dict[int, Account] = {}
        self._keys: dict[str, Key] = {}
        self._keys_by_digest: dict[bytes, Key] = {}
        self._budgets: WeakValueDictionary[int, Budget] = WeakValueDictionary()
        """Kept by their keys and their holds."""
        self._lines: WeakValueDictionary[str, Line] = WeakValueDictionary()
        """Kept by their keys."""
        self._sweep_above = KEYS_BEFORE_SWEEP

    def accounts(self) -> Iterable[Account]:
        return self._accounts.values()

    def budgets(self) -> Iterable[Budget]:
        return self._budgets.values()

    def find_key(self, digest: bytes) -> Key | None:
        return self._keys_by_digest.get(digest)

    def apply(self, snapshot: Snapshot) -> None:
        """Take rows over; known accounts and keys stay the same objects."""
        for account in snapshot.accounts:  # before the keys, which refer to them
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
        for origin_id, spent in spent_nano.items():
            # A charge may end behind its key, which was revoked and forgotten meanwhile.
            if (line := self._lines.get(origin_id)) is not None:
                line.spent_nano = spent
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
        if account.terms != row.terms:  # the API counts anew when it is another object
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
            account, line = self._accounts[row.account_id], self._apply_line(row)
            key = Key(row.id, account, row.terms, line, budget=budget)
            self._keys[row.id] = self._keys_by_digest[row.digest] = key
            return
        if row.revoked_ms is not None:
            # Requests in flight have the key itself, and learn below that it has ended.
            del self._keys[row.id], self._keys_by_digest[row.digest]
        if key.terms != row.terms:
            key.terms = row.terms
        key.revoked_ms = row.revoked_ms
        key.budget = budget
        self._apply_line(row)

    def _apply_line(self, row: KeyRow) -> Line:
        line = self._lines.get(row.origin_id)
        if line is None:
            line = self._lines[row.origin_id] = Line(row.origin_id)
        line.spent_nano = row.spent_nano
        return line

    def _sweep(self) -> None:
        now_ms = self._clock()
        live = {digest: key for digest, key in self._keys_by_digest.items() if key.is_live(now_ms)}
        self._keys_by_digest = live
        self._keys = {key.id: key for key in live.values()}
        # Doubling makes the sweeps cost a constant for each key that is added.
        self._sweep_above = max(2 * len(live), KEYS_BEFORE_SWEEP)
