"""Accounts, keys and holds as the serving process has them. No I/O: a request reads no row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.errors import BalanceHeld, InsufficientBalance
from gateway.ledger.base import Account, Admission, Hold, Key


@dataclass(frozen=True, slots=True)
class AccountRow:
    id: int
    name: str
    suspended: bool
    balance_nano: int


@dataclass(frozen=True, slots=True)
class KeyRow:
    id: str
    account_id: int
    digest: bytes
    name: str
    models: frozenset[str] | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrency: int | None
    cap_nano: int | None
    expires_ms: int | None
    revoked_ms: int | None
    spent_nano: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Accounts and keys as committed: all of them, or those that other processes changed."""

    accounts: tuple[AccountRow, ...]
    keys: tuple[KeyRow, ...]


class Memory:
    """What `hold` decides on. Balances are assigned from what was committed, never computed."""

    def __init__(self) -> None:
        self._accounts: dict[int, Account] = {}
        self._keys: dict[str, Key] = {}
        self._keys_by_digest: dict[bytes, Key] = {}

    def accounts(self) -> Iterable[Account]:
        return self._accounts.values()

    def find_key(self, digest: bytes) -> Key | None:
        return self._keys_by_digest.get(digest)

    def apply(self, snapshot: Snapshot) -> None:
        """Take over rows; accounts and keys already known stay the same objects."""
        for account in snapshot.accounts:
            self._apply_account(account)
        for key in snapshot.keys:
            self._apply_key(key)

    def assign(self, balances_nano: Mapping[int, int], spent_nano: Mapping[str, int]) -> None:
        for account_id, balance in balances_nano.items():
            self._accounts[account_id].balance_nano = balance
        for key_id, spent in spent_nano.items():
            self._keys[key_id].spent_nano = spent

    def _apply_account(self, row: AccountRow) -> None:
        account = self._accounts.get(row.id)
        if account is None:
            self._accounts[row.id] = Account(row.id, row.name, row.suspended, row.balance_nano)
            return
        account.name = row.name
        account.suspended = row.suspended
        account.balance_nano = row.balance_nano

    def _apply_key(self, row: KeyRow) -> None:
        key = self._keys.get(row.id)
        if key is None:
            key = _make_key(row, self._accounts[row.account_id])
            self._keys[row.id] = key
            self._keys_by_digest[row.digest] = key
            return
        key.name = row.name
        key.models = row.models
        key.requests_per_minute = row.requests_per_minute
        key.tokens_per_minute = row.tokens_per_minute
        key.concurrency = row.concurrency
        key.cap_nano = row.cap_nano
        key.expires_ms = row.expires_ms
        key.revoked_ms = row.revoked_ms
        key.spent_nano = row.spent_nano


def take_hold(key: Key, admission: Admission) -> Hold:
    """Check and reserve in one step: the binding check of who may spend.

    Raises:
        InsufficientBalance: the balance is not positive, or the key's cap is spent.
        BalanceHeld: something is left, but requests in flight hold all of it.
    """
    account, amount_nano = key.account, admission.hold_nano
    if amount_nano < 0:
        raise ValueError("a hold cannot be negative")
    if account.balance_nano <= 0:
        raise InsufficientBalance(
            "The account's balance is used up. Top it up; requests fail until it is positive."
        )
    if key.cap_nano is not None and key.spent_nano >= key.cap_nano:
        raise InsufficientBalance(
            "This key's spending cap is reached. Raise the cap or use another key."
        )
    if account.available_nano <= 0:
        raise BalanceHeld(
            "The account's whole balance is held by requests in flight. "
            "Try again when one has finished, or top up."
        )
    if key.cap_nano is not None and key.cap_nano - key.spent_nano - key.held_nano <= 0:
        raise BalanceHeld(
            "The rest of this key's spending cap is held by requests in flight. "
            "Try again when one has finished."
        )
    account.held_nano += amount_nano
    key.held_nano += amount_nano
    return Hold(admission=admission, account=account, key=key, amount_nano=amount_nano)


def raise_hold(hold: Hold, amount_nano: int) -> None:
    """Hold the true cost as soon as it is known and exceeds the estimate."""
    more = max(amount_nano - hold.amount_nano, 0)
    hold.amount_nano += more
    hold.account.held_nano += more
    hold.key.held_nano += more


def drop_hold(hold: Hold) -> None:
    """Nothing is held any more; at most once."""
    if hold.resolved:
        return
    hold.resolved = True
    hold.account.held_nano -= hold.amount_nano
    hold.key.held_nano -= hold.amount_nano


def _make_key(row: KeyRow, account: Account) -> Key:
    return Key(
        id=row.id,
        account=account,
        name=row.name,
        models=row.models,
        requests_per_minute=row.requests_per_minute,
        tokens_per_minute=row.tokens_per_minute,
        concurrency=row.concurrency,
        cap_nano=row.cap_nano,
        expires_ms=row.expires_ms,
        revoked_ms=row.revoked_ms,
        spent_nano=row.spent_nano,
    )
