"""Changes that other processes commit: `PRAGMA data_version` tells of them, `changes` names them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

import orjson

from gateway.ledger.base import Account
from gateway.ledger.budget_records import Allowance, Budget, Spending
from gateway.ledger.periods import Period, find_span
from gateway.ledger.serving.memory import KeyRow, Snapshot
from gateway.ledger.sql.terms import (
    KEY_LIVES,
    KEY_TERMS,
    TERMS,
    KeyTermsColumns,
    TermsColumns,
    read_key_terms,
    read_terms,
)
from gateway.ledger.sqlite.schema import transaction
from gateway.times import DAY_MS

_ACCOUNTS: Final = f"SELECT id, name, suspended, balance_nano, {TERMS} FROM accounts"  # noqa: S608 - built from constants
_KEYS: Final = f"SELECT id, account_id, digest, revoked_ms, spent_nano, {KEY_TERMS} FROM keys"  # noqa: S608
_LIVE_KEYS: Final = f"{_KEYS} WHERE {KEY_LIVES}"
_BUDGETS: Final = (
    "SELECT id, account_id, name, amount_nano, period, spent_nano, period_day FROM budgets"
    " WHERE id IN (SELECT value FROM json_each(:ids))"
)
_CHANGED_ACCOUNTS: Final = (
    " WHERE id IN (SELECT CAST(id AS INTEGER) FROM changes"
    " WHERE kind = 'account' AND seq > ? AND seq <= ?)"
)
_CHANGED_KEYS: Final = (
    " WHERE id IN (SELECT id FROM changes WHERE kind = 'key' AND seq > ? AND seq <= ?)"
)
_CHANGED_BUDGETS: Final = (
    " OR id IN (SELECT CAST(id AS INTEGER) FROM changes"
    " WHERE kind = 'budget' AND seq > :after AND seq <= :last)"
)


class ChangeFeed:
    """Reads `changes` from where it last stopped, on the connection's thread."""

    def __init__(self) -> None:
        self._data_version = -1
        self._seq = 0

    def read_all(self, connection: sqlite3.Connection, now_ms: int) -> Snapshot:
        """Read all accounts and live keys at the start, and clear `changes`, of no use before it."""
        with transaction(connection):
            self._data_version = _read_data_version(connection)
            self._seq = _read_last_seq(connection)
            accounts = tuple(_account_row(row) for row in connection.execute(_ACCOUNTS))
            rows = connection.execute(_LIVE_KEYS, {"now": now_ms})
            keys = tuple(_key_row(row) for row in rows)
            snapshot = Snapshot(accounts, keys, _read_budgets(connection, keys))
            connection.execute("DELETE FROM changes")
        return snapshot

    def poll(self, connection: sqlite3.Connection) -> Snapshot | None:
        """Return the accounts, budgets and keys that other processes changed since the last call, if any.

        The version is read before the rows: a commit in between is read and assigned twice rather
        than missed.
        """
        version = _read_data_version(connection)
        if version == self._data_version:
            return None
        seq = max(self._seq, _read_last_seq(connection))
        seen = (self._seq, seq)
        accounts = connection.execute(_ACCOUNTS + _CHANGED_ACCOUNTS, seen).fetchall()
        rows = connection.execute(_KEYS + _CHANGED_KEYS, seen).fetchall()
        keys = tuple(_key_row(row) for row in rows)
        budgets = _read_budgets(connection, keys, seen)
        self._data_version, self._seq = version, seq
        return Snapshot(tuple(_account_row(row) for row in accounts), keys, budgets)


def _read_data_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _read_last_seq(connection: sqlite3.Connection) -> int:
    (seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()
    return int(seq)


def _account_row(row: tuple[int, str, int, int, *TermsColumns]) -> Account:
    account_id, name, suspended, balance_nano = row[:4]
    return Account(account_id, name, bool(suspended), balance_nano, terms=read_terms(row[4:]))


def _read_budgets(
    connection: sqlite3.Connection, keys: Sequence[KeyRow], seen: tuple[int, int] | None = None
) -> tuple[Budget, ...]:
    """Return the budgets of these keys, and those that changed in the range that was `seen`."""
    ids = {key.terms.budget_id for key in keys} - {None}
    values: dict[str, str | int] = {"ids": orjson.dumps(list(ids)).decode()}
    if seen is None:
        return tuple(_budget_row(row) for row in connection.execute(_BUDGETS, values))
    values |= {"after": seen[0], "last": seen[1]}
    rows = connection.execute(_BUDGETS + _CHANGED_BUDGETS, values)
    return tuple(_budget_row(row) for row in rows)


def _budget_row(row: tuple[int, int, str | None, int, Period, int, int]) -> Budget:
    budget_id, account_id, name, amount_nano, period, spent_nano, period_day = row
    spending = Spending(find_span(period, period_day * DAY_MS), spent_nano)
    return Budget(budget_id, account_id, name, Allowance(amount_nano, period), spending)


def _key_row(
    row: tuple[str, int, bytes, int | None, int, *KeyTermsColumns],
) -> KeyRow:
    key_id, account_id, digest, revoked_ms, spent_nano = row[:5]
    return KeyRow(key_id, account_id, digest, read_key_terms(row[5:]), revoked_ms, spent_nano)
