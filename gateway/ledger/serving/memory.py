"""Accounts and live keys in memory, and holds, which are decided by them. No I/O: a request reads no row.

Ended keys are dropped, since holders may make new keys all day: revoked keys at once, expired keys
whenever the number of keys has doubled. Requests in flight keep their keys.

A hold is checked and reserved in one step; it may be raised, and is released once.
`Account.held_nano` is the sum of the unsettled holds; a key's line and its budget have sums of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from weakref import WeakValueDictionary

from gateway.base.errors import NoFunds
from gateway.base.money import NONE, Tokens
from gateway.ledger.base import Account, Admission, Hold, Key, Line, Settlement
from gateway.ledger.budget_records import Budget, Spending
from gateway.ledger.call_records import Receipt
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import MAX_INTEGER, MOST_SPENT_NANO

KEYS_BEFORE_SWEEP: Final = 1024
"""Keys in memory up to which expired ones are kept: so few take little room, and a sweep visits all."""


@dataclass(slots=True)
class KeyRow:
    """A committed key. Not frozen, which makes it quicker: a start makes one for every key."""

    id: str
    account_id: int
    digest: bytes
    terms: KeyTerms
    revoked_ms: int | None
    origin_id: str
    """The id of the first key of its line."""
    spent_nano: int
    """The sum of the line's requests."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Committed accounts, budgets and keys: all at a start, later those that other processes changed."""

    accounts: tuple[Account, ...]
    keys: tuple[KeyRow, ...]
    budgets: tuple[Budget, ...] = ()
    """The budgets of the keys, and possibly more."""
    for_extras: bool = False
    """Something was changed that extras keep in memory."""


class Memory:
    """The state that decides about holds. Balances are assigned from commits, never computed."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._accounts: dict[int, Account] = {}
        self._keys: dict[str, Key] = {}
        self._keys_by_digest: dict[bytes, Key] = {}
        self.find_key = self._keys_by_digest.get
        """Returns the live key of a digest, or None. Each request asks."""
        self._budgets: WeakValueDictionary[int, Budget] = WeakValueDictionary()
        """Budgets, kept alive by their keys and holds."""
        self._lines: WeakValueDictionary[str, Line] = WeakValueDictionary()
        """Lines, kept alive by their keys."""
        self._sweep_above = KEYS_BEFORE_SWEEP

    def accounts(self) -> Iterable[Account]:
        return self._accounts.values()

    def budgets(self) -> Iterable[Budget]:
        return self._budgets.values()

    def apply(self, snapshot: Snapshot) -> None:
        """Take rows over; known accounts and keys stay the same objects."""
        for account in snapshot.accounts:  # first, as keys refer to budgets
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
        # Accounts never leave this memory, so each charged account is here.
        for account_id, balance in balances_nano.items():
            self._accounts[account_id].balance_nano = balance
        for origin_id, spent in spent_nano.items():
            # The key may have been revoked and dropped before the charge was committed.
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
        if account.terms != row.terms:  # for a new object the API sets its limits anew
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
            if row.revoked_ms is not None:  # it ended unknown, so no request in flight has it
                return
            account, line = self._accounts[row.account_id], self._apply_line(row)
            key = Key(row.id, account, row.terms, line, budget=budget)
            self._keys[row.id] = self._keys_by_digest[row.digest] = key
            return
        if row.revoked_ms is not None:
            # Requests in flight keep the key object, whose end is noted below.
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
        found = self._keys_by_digest.items()
        for digest in [one for one, key in found if not key.is_live(now_ms)]:
            del self._keys[self._keys_by_digest.pop(digest).id]
        # Sweeping at each doubling costs a constant time per added key.
        self._sweep_above = max(2 * len(self._keys), KEYS_BEFORE_SWEEP)


MAX_TEXT_CHARS: Final = 500
"""Characters of a name in a row: PostgreSQL's indexes take 2,700 bytes."""


def take_hold(key: Key, admission: Admission, clock: Callable[[], int] | None = None) -> Hold:
    """Check and reserve in one step. If little money is left, reserve all that the request may cost.

    A budget counts in the period that `clock` tells, by default in that of the request's beginning.

    Raises NoFunds if a limit is spent, or requests in flight hold what is left of it.
    """
    check_admission(admission)
    # There is no await between check and reservation, so no other request can use the same money.
    if _require_funds(key, admission, clock) < admission.full_below_nano:
        admission.hold_nano = max(admission.full_nano, admission.hold_nano)
    held_nano = admission.hold_nano
    hold = Hold(admission, key.account, key, held_nano, budget=key.budget)
    hold.unheld_nano = max(admission.full_nano - held_nano, 0)
    _add(hold, held_nano, hold.unheld_nano)
    return hold


def check_admission(admission: Admission) -> None:
    """Raise ValueError for values that no ledger can write: then the provider must not be asked."""
    amounts = (
        admission.hold_nano,
        admission.full_nano,
        admission.full_below_nano,
        admission.started_ms,
        admission.expected_tokens,
    )
    for amount in (min(amounts), max(amounts)):
        if not 0 <= amount <= MAX_INTEGER:
            raise ValueError(f"{amount} is no number that the ledger can write")
    if not (_is_text(admission.model) and _is_text(admission.provider)):
        raise ValueError("a name is no text that the ledger can write")


@lru_cache(maxsize=1024)
def _is_text(text: str) -> bool:
    """Return whether PostgreSQL can store a text: it is short, and has no NUL and no lone surrogate."""
    if len(text) > MAX_TEXT_CHARS or "\0" in text:
        return False
    return text == text.encode("utf-8", "replace").decode()


def _require_funds(key: Key, admission: Admission, clock: Callable[[], int] | None) -> int:
    """Return how much is left of the balance, the cap or the budget, whichever is least.

    Requests in flight count with the most they may cost. Spent limits are reported before held ones:
    only a held limit is worth another try.
    """
    account, budget, line = key.account, key.budget, key.line
    most_nano = max(admission.hold_nano, admission.full_nano)
    cap_nano = MOST_SPENT_NANO if key.terms.cap_nano is None else key.terms.cap_nano
    # PostgreSQL's `admit_requests` has the same order, so both refuse in the same words.
    if account.balance_nano <= 0:
        raise NoFunds("balance")
    if line.spent_nano >= cap_nano:
        raise NoFunds("cap")
    now_ms = admission.started_ms
    if budget is not None:
        # A body may arrive over midnight, and the period of the request's end is charged.
        now_ms = now_ms if clock is None else clock()
        if budget.is_spent(now_ms):
            raise NoFunds("budget")
    spoken_for_nano = account.held_nano + account.unheld_nano
    balance_left_nano = account.balance_nano - spoken_for_nano
    # The sum of all holds is stored, too, so it has to fit an integer of the database.
    if balance_left_nano <= 0 or spoken_for_nano > MAX_INTEGER - most_nano:
        raise NoFunds("balance held")
    cap_left_nano = cap_nano - line.spent_nano - line.held_nano - line.unheld_nano
    if cap_left_nano <= 0:
        raise NoFunds("cap held")
    if budget is None:
        return min(balance_left_nano, cap_left_nano)
    budget_left_nano = budget.find_left_nano(now_ms)
    if budget_left_nano <= 0:
        raise NoFunds("budget held")
    return min(balance_left_nano, cap_left_nano, budget_left_nano)


def raise_to(hold: Hold, amount_nano: int) -> None:
    """Raise the hold to the true cost if that exceeds it; the possible cost beyond it shrinks."""
    more_nano = amount_nano - hold.amount_nano
    if more_nano > 0:
        # A cost above the expected maximum is held as a whole, and nothing is left beyond.
        unheld_nano = max(hold.admission.full_nano - amount_nano, 0)
        _add(hold, more_nano, unheld_nano - hold.unheld_nano)
        hold.amount_nano, hold.unheld_nano = amount_nano, unheld_nano


def drop_hold(hold: Hold) -> bool:
    """Release the hold; return False if it was released before."""
    if hold.resolved:
        return False
    hold.resolved = True  # a late settlement must not release it again
    _add(hold, -hold.amount_nano, -hold.unheld_nano)
    return True


def _add(hold: Hold, held_nano: int, unheld_nano: int) -> None:
    """Add to the sums of all that the hold is in: its account, the key's line and the budget."""
    account, line, budget = hold.account, hold.key.line, hold.budget
    account.held_nano += held_nano
    account.unheld_nano += unheld_nano
    line.held_nano += held_nano
    line.unheld_nano += unheld_nano
    if budget is not None:
        budget.held_nano += held_nano
        budget.unheld_nano += unheld_nano


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


def make_void(admission: Admission) -> Settlement:
    """Make the settlement of a request that the ledger could not record: nothing is charged."""
    return Settlement(
        outcome="ledger_error",
        provider=admission.provider,
        attempts=0,
        status=503,
        tokens=Tokens(),
        tool_calls=NONE,
        price=admission.price,
        cost_nano=0,
        estimated=False,
        first_byte_ms=None,
        ended_ms=admission.started_ms,
        withdraw_if_late=False,
    )
