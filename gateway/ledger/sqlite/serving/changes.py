"""Changes that other processes commit: `PRAGMA data_version` tells of them, `changes` names them."""

from __future__ import annotations

import sqlite3
from typing import Final

from gateway.ledger.base import Account
from gateway.ledger.sqlite.rows import TermsColumns, read_terms
from gateway.ledger.sqlite.schema import transaction
from gateway.ledger.sqlite.serving.memory import KeyRow, Snapshot

_ACCOUNTS: Final = "SELECT id, name, suspended, balance_nano FROM accounts"
_KEYS: Final = (
    "SELECT id, account_id, digest, revoked_ms, spent_nano, name, models, requests_per_minute,"
    " tokens_per_minute, concurrency, cap_nano, expires_ms FROM keys"
)
_CHANGED_ACCOUNTS: Final = (
    " WHERE id IN (SELECT CAST(id AS INTEGER) FROM changes"
    " WHERE kind = 'account' AND seq > ? AND seq <= ?)"
)
_CHANGED_KEYS: Final = (
    " WHERE id IN (SELECT id FROM changes WHERE kind = 'key' AND seq > ? AND seq <= ?)"
)


class ChangeFeed:
    """Reads `changes` from where it last stopped, on the connection's thread."""

    def __init__(self) -> None:
        self._data_version = -1
        self._seq = 0

    def read_all(self, connection: sqlite3.Connection) -> Snapshot:
        """Read everything, once at the start, and clear `changes`, which is of no use before it."""
        with transaction(connection):
            self._data_version = _read_data_version(connection)
            self._seq = _read_last_seq(connection)
            snapshot = Snapshot(
                tuple(_account_row(row) for row in connection.execute(_ACCOUNTS)),
                tuple(_key_row(row) for row in connection.execute(_KEYS)),
            )
            connection.execute("DELETE FROM changes")
        return snapshot

    def poll(self, connection: sqlite3.Connection) -> Snapshot | None:
        """Return the accounts and keys that other processes changed since the last call, if any.

        The version is read before the rows: a commit in between is read and assigned twice rather
        than missed.
        """
        version = _read_data_version(connection)
        if version == self._data_version:
            return None
        seq = max(self._seq, _read_last_seq(connection))
        seen = (self._seq, seq)
        accounts = connection.execute(_ACCOUNTS + _CHANGED_ACCOUNTS, seen).fetchall()
        keys = connection.execute(_KEYS + _CHANGED_KEYS, seen).fetchall()
        self._data_version, self._seq = version, seq
        return Snapshot(
            tuple(_account_row(row) for row in accounts), tuple(_key_row(row) for row in keys)
        )


def _read_data_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _read_last_seq(connection: sqlite3.Connection) -> int:
    (seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()
    return int(seq)


def _account_row(row: tuple[int, str, int, int]) -> Account:
    account_id, name, suspended, balance_nano = row
    return Account(account_id, name, bool(suspended), balance_nano)


def _key_row(
    row: tuple[str, int, bytes, int | None, int, *TermsColumns],
) -> KeyRow:
    key_id, account_id, digest, revoked_ms, spent_nano = row[:5]
    return KeyRow(key_id, account_id, digest, read_terms(row[5:]), revoked_ms, spent_nano)
