"""Polls of the database: commits of other processes, and the size of the write-ahead log."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.ledger.serving.memory import Snapshot
from gateway.ledger.sql.database import read_number
from gateway.ledger.sql.rows import read_all, read_changed
from gateway.ledger.sqlite.files import name_beside
from gateway.ledger.sqlite.statements import transaction

log = logging.getLogger("gateway.ledger")

_DATA_VERSION: Final = "PRAGMA data_version"
_LAST_SEQ: Final = "SELECT coalesce(max(seq), 0) FROM changes"
_CHANGED: Final = "SELECT kind, id FROM changes WHERE seq > ? AND seq <= ?"


class ChangeFeed:
    """Changes that other processes commit: `PRAGMA data_version` tells of them, `changes` names them.

    Reads `changes` from where it last stopped, on the connection's thread.
    """

    def __init__(self) -> None:
        self._data_version = -1
        self._seq = 0

    def read_all(self, connection: sqlite3.Connection, now_ms: int) -> Snapshot:
        """Read all accounts and live keys at the start; clear `changes`, whose rows are older than that."""
        with transaction(connection):
            self._data_version = read_number(connection, _DATA_VERSION)
            self._seq = read_number(connection, _LAST_SEQ)
            snapshot = read_all(connection, now_ms)
            connection.execute("DELETE FROM changes")
        return snapshot

    def poll(self, connection: sqlite3.Connection) -> Snapshot | None:
        """Return the accounts, budgets and keys that other processes changed since the last call, if any.

        The version is read before the rows: a commit in between is read and assigned twice rather
        than missed.
        """
        version = read_number(connection, _DATA_VERSION)
        if version == self._data_version:
            return None
        seq = max(self._seq, read_number(connection, _LAST_SEQ))
        snapshot = read_changed(
            connection, connection.execute(_CHANGED, (self._seq, seq)).fetchall()
        )
        self._data_version, self._seq = version, seq
        return snapshot


LARGE_BYTES: Final = 8 << 20
"""Twice the size at which SQLite checkpoints by itself, 1,000 pages."""

ALARM_BYTES: Final = 64 << 20
"""The size at which the log is reported: a reader that never ends keeps it from being cut back."""

RETRY_SECONDS: Final = 5.0
"""The pause after an attempt: a reader may have been in the way."""


class WalKeeper:
    """Keeps the write-ahead log of one database small, on the connection's thread.

    SQLite writes its pages back into the database unless a reader is in the way, but the file keeps
    its length, and it grows behind a long read. When there is nothing to commit, the log is written
    back and truncated.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = name_beside(path, "-wal")
        self._clock = clock
        self._not_before_seconds = clock()
        self._is_warned = False
        self.size_bytes = 0
        """The size when it was last looked at."""

    def look_after(self, connection: sqlite3.Connection, *, idle: bool) -> None:
        """Truncate the log if that is due and possible; warn when it has grown too large."""
        size, now_seconds = self._measure(), self._clock()
        if idle and size >= LARGE_BYTES and now_seconds >= self._not_before_seconds:
            self._not_before_seconds = now_seconds + RETRY_SECONDS
            # Only while nothing waits to be committed: it copies the whole log into the database.
            with suppress(sqlite3.Error):  # if the disk fails, the next commit reports it
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            size = self._measure()
        self.size_bytes = size
        if size >= ALARM_BYTES and not self._is_warned:
            log.warning(
                "the write-ahead log has grown to %d MiB: some program keeps reading the database",
                size >> 20,
            )
        self._is_warned = size >= ALARM_BYTES

    def _measure(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:  # no log yet; if the disk fails, the next commit reports it
            return 0
