"""The operator's side of the ledger: synchronous, each change its own short transaction.

Used by the CLI while the server runs, so whatever is changed is also appended to `changes`.
Reads are in `reports`; what may be asked for is checked in `gateway.accounts`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import orjson

from gateway.ledger import reports
from gateway.ledger.audit import run_audit
from gateway.ledger.backup import write_backup
from gateway.ledger.base import LedgerError, unix_ms
from gateway.ledger.batch import Draft, EntryKind, post_entries
from gateway.ledger.changes import append_change
from gateway.ledger.records import (
    AccountView,
    AuditReport,
    Conflict,
    EntryView,
    KeyTerms,
    KeyView,
    NotFound,
    Refused,
    UsageRow,
)
from gateway.ledger.schema import connect, transaction

MAX_BALANCE_NANO: Final = 2**63 - 1
"""The largest integer that SQLite keeps."""


class Books:
    """One connection; a context manager. Every verb may raise LedgerError (busy, disk full)."""

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], int]) -> None:
        self._connection = connection
        self.clock = clock

    @classmethod
    def open(cls, path: Path, *, create: bool = False, clock: Callable[[], int] = unix_ms) -> Self:
        return cls(connect(path, create=create), clock)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def accounts(self) -> list[AccountView]:
        with _mapped_errors():
            return reports.read_accounts(self._connection)

    def account(self, name: str) -> AccountView:
        with _mapped_errors():
            return reports.read_account(self._connection, name)

    def entries(self, account: str, limit: int) -> list[EntryView]:
        """The latest first."""
        with _mapped_errors():
            return reports.read_entries(self._connection, account, limit)

    def keys(self, account: str | None = None) -> list[KeyView]:
        with _mapped_errors():
            if account is not None:
                reports.read_account(self._connection, account)
            return reports.read_keys(self._connection, account)

    def key(self, key_id: str) -> KeyView:
        with _mapped_errors():
            return reports.read_key(self._connection, key_id)

    def usage(
        self, *, by: str, account: str | None, since_ms: int | None, until_ms: int | None
    ) -> list[UsageRow]:
        """Posted requests that ended in [since, until), by `reports.USAGE_GROUPS`."""
        with _mapped_errors():
            if account is not None:
                reports.read_account(self._connection, account)
            return reports.read_usage(self._connection, by, account, since_ms, until_ms)

    def audit(self) -> AuditReport:
        with _mapped_errors():
            return run_audit(self._connection, full=True, now_ms=self.clock())

    def back_up(self, target: Path) -> int:
        """A consistent copy in a new file, without keeping the server from writing."""
        return write_backup(self._connection, target)

    def create_account(self, name: str, *, credit_nano: int, operator: bool) -> AccountView:
        with self._changing() as connection:
            if connection.execute("SELECT 1 FROM accounts WHERE name = ?", (name,)).fetchone():
                raise Conflict(f"there is an account '{name}' already")
            now_ms = self.clock()
            (account_id,) = connection.execute(
                "INSERT INTO accounts (name, operator, created_ms) VALUES (?, ?, ?) RETURNING id",
                (name, operator, now_ms),
            ).fetchone()
            if credit_nano:
                post_entries(connection, [Draft(account_id, "credit", credit_nano, now_ms)])
            append_change(connection, "account", account_id)
            return reports.read_account(connection, name)

    def set_suspended(self, name: str, *, suspended: bool) -> AccountView:
        with self._changing() as connection:
            account = reports.read_account(connection, name)
            connection.execute(
                "UPDATE accounts SET suspended = ? WHERE id = ?", (suspended, account.id)
            )
            append_change(connection, "account", account.id)
            return reports.read_account(connection, name)

    def post(
        self,
        name: str,
        kind: EntryKind,
        amount_nano: int,
        *,
        note: str,
        idempotency_key: str | None = None,
        request_id: str | None = None,
    ) -> EntryView:
        """Append one entry; with an idempotency key at most once, whoever asks how often."""
        with self._changing() as connection:
            account = reports.read_account(connection, name)
            draft = Draft(
                account.id, kind, amount_nano, self.clock(), request_id, idempotency_key, note
            )
            earlier = reports.find_by_idempotency_key(connection, account.id, idempotency_key)
            if earlier is not None:
                return _require_same(earlier, draft)
            _require_room(account, amount_nano)
            _require_request(connection, account, request_id)
            post_entries(connection, [draft])
            append_change(connection, "account", account.id)
            return reports.read_entries(connection, name, 1)[0]

    def create_key(
        self, account: str, terms: KeyTerms, *, digest: bytes, last4: str, key_id: str
    ) -> KeyView:
        with self._changing() as connection:
            owner = reports.read_account(connection, account)
            _insert_key(connection, owner.id, terms, (key_id, digest, last4, self.clock()))
            return reports.read_key(connection, key_id)

    def replace_key(
        self, old_id: str, *, digest: bytes, last4: str, key_id: str, grace_ms: int
    ) -> KeyView:
        """A new key on the old one's terms, with what is left of its cap; the old one expires.

        During the grace either may spend what was left, since each has its own account of it.
        """
        with self._changing() as connection:
            old = reports.read_key(connection, old_id)
            now_ms = self.clock()
            _require_live(connection, old, now_ms)
            owner = reports.read_account(connection, old.account)
            _insert_key(connection, owner.id, _rest_of(old), (key_id, digest, last4, now_ms))
            connection.execute(
                "UPDATE keys SET expires_ms = min(coalesce(expires_ms, :end), :end),"
                " replaced_by = :new WHERE id = :old",
                {"end": now_ms + grace_ms, "new": key_id, "old": old_id},
            )
            append_change(connection, "key", old_id)
            return reports.read_key(connection, key_id)

    def revoke_key(self, key_id: str) -> KeyView:
        """From now on; a key revoked before stays so since then."""
        with self._changing() as connection:
            reports.read_key(connection, key_id)
            connection.execute(
                "UPDATE keys SET revoked_ms = coalesce(revoked_ms, ?) WHERE id = ?",
                (self.clock(), key_id),
            )
            append_change(connection, "key", key_id)
            return reports.read_key(connection, key_id)

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with _mapped_errors(), transaction(self._connection):
            yield self._connection


@contextmanager
def _mapped_errors() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise LedgerError(f"the ledger cannot be used: {error}") from error


def _insert_key(
    connection: sqlite3.Connection,
    account_id: int,
    terms: KeyTerms,
    identity: tuple[str, bytes, str, int],
) -> None:
    models = None if terms.models is None else orjson.dumps(terms.models).decode()
    connection.execute(
        "INSERT INTO keys (id, digest, last4, created_ms, account_id, name, models,"
        " requests_per_minute, tokens_per_minute, concurrency, cap_nano, expires_ms)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            *identity,
            account_id,
            terms.name,
            models,
            terms.requests_per_minute,
            terms.tokens_per_minute,
            terms.concurrency,
            terms.cap_nano,
            terms.expires_ms,
        ),
    )
    append_change(connection, "key", identity[0])


def _rest_of(old: KeyView) -> KeyTerms:
    cap_nano = None if old.cap_nano is None else max(old.cap_nano - old.spent_nano, 0)
    return KeyTerms(
        name=old.name,
        models=old.models,
        requests_per_minute=old.requests_per_minute,
        tokens_per_minute=old.tokens_per_minute,
        concurrency=old.concurrency,
        cap_nano=cap_nano,
        expires_ms=old.expires_ms,
    )


def _require_live(connection: sqlite3.Connection, key: KeyView, now_ms: int) -> None:
    (replaced_by,) = connection.execute(
        "SELECT replaced_by FROM keys WHERE id = ?", (key.id,)
    ).fetchone()
    if replaced_by is not None:
        raise Conflict(f"key {key.id} was replaced by {replaced_by}; rotate that one")
    if key.revoked_ms is not None:
        raise Conflict(f"key {key.id} is revoked; add a new one")
    if key.expires_ms is not None and key.expires_ms <= now_ms:
        raise Conflict(f"key {key.id} has expired; add a new one")


def _require_same(earlier: EntryView, draft: Draft) -> EntryView:
    """A repeated call gives the earlier entry; another call under its key is a mistake."""
    if (earlier.kind, earlier.amount_nano, earlier.note, earlier.request_id) != (
        draft.kind,
        draft.amount_nano,
        draft.note,
        draft.request_id,
    ):
        raise Conflict(
            f"the idempotency key '{draft.idempotency_key}' was used before, for another entry"
        )
    return earlier


def _require_room(account: AccountView, amount_nano: int) -> None:
    if abs(account.balance_nano + amount_nano) > MAX_BALANCE_NANO:
        raise Refused(f"the balance of '{account.name}' would be beyond what the ledger can keep")


def _require_request(
    connection: sqlite3.Connection, account: AccountView, request_id: str | None
) -> None:
    if request_id is None:
        return
    found = connection.execute(
        "SELECT 1 FROM requests WHERE id = ? AND account_id = ?", (request_id, account.id)
    ).fetchone()
    if found is None:
        raise NotFound(f"account '{account.name}' has no request '{request_id}'")
