"""What other processes commit, as the server sees it: `PRAGMA data_version`, then `changes`."""

from __future__ import annotations

import sqlite3
from typing import Any, Final, Literal

import orjson

from gateway.ledger.memory import AccountRow, KeyRow, Snapshot
from gateway.ledger.schema import transaction

_ACCOUNTS: Final = "SELECT id, name, suspended, balance_nano FROM accounts"
_KEYS: Final = (
    "SELECT id, account_id, digest, name, models, requests_per_minute, tokens_per_minute,"
    " concurrency, cap_nano, expires_ms, revoked_ms, spent_nano FROM keys"
)
_CHANGED_ACCOUNTS: Final = (
    " WHERE id IN (SELECT CAST(id AS INTEGER) FROM changes"
    " WHERE kind = 'account' AND seq > ? AND seq <= ?)"
)
_CHANGED_KEYS: Final = (
    " WHERE id IN (SELECT id FROM changes WHERE kind = 'key' AND seq > ? AND seq <= ?)"
)


class ChangeFeed:
    """Where the server has got to in `changes`; lives on the connection's thread."""

    def __init__(self) -> None:
        self._data_version = -1
        self._seq = 0

    def read_all(self, connection: sqlite3.Connection) -> Snapshot:
        """Everything, once at the start; what `changes` had until then is of no more use."""
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
        """The accounts and keys that other processes changed since the last look, if any.

        The version is read before the rows: what is committed in between shows up twice, and
        is assigned twice, rather than missed.
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


def append_change(
    connection: sqlite3.Connection, kind: Literal["account", "key"], id_: int | str
) -> None:
    """Tell the server what this transaction changes."""
    connection.execute("INSERT INTO changes (kind, id) VALUES (?, ?)", (kind, str(id_)))


def _read_data_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _read_last_seq(connection: sqlite3.Connection) -> int:
    (seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()
    return int(seq)


def _account_row(row: tuple[Any, ...]) -> AccountRow:
    account_id, name, suspended, balance_nano = row
    return AccountRow(account_id, name, bool(suspended), balance_nano)


def _key_row(row: tuple[Any, ...]) -> KeyRow:
    key_id, account_id, digest, name, models, *numbers = row
    allowed = None if models is None else frozenset(orjson.loads(models))
    return KeyRow(key_id, account_id, digest, name, allowed, *numbers)
