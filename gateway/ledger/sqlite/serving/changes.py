"""Changes that other processes commit: `PRAGMA data_version` tells of them, `changes` names them."""

from __future__ import annotations

import sqlite3
from typing import Final

from gateway.ledger.serving.memory import Snapshot
from gateway.ledger.sql.lookups import read_all, read_changed
from gateway.ledger.sqlite.schema import transaction

_CHANGED: Final = "SELECT kind, id FROM changes WHERE seq > ? AND seq <= ?"


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
            snapshot = read_all(connection, now_ms)
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
        snapshot = read_changed(
            connection, connection.execute(_CHANGED, (self._seq, seq)).fetchall()
        )
        self._data_version, self._seq = version, seq
        return snapshot


def _read_data_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _read_last_seq(connection: sqlite3.Connection) -> int:
    (seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()
    return int(seq)
