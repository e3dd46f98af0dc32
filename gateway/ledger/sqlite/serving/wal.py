"""Keeps the write-ahead log small.

SQLite writes its pages back into the database unless a reader is in the way, but the file keeps
its length, and it grows behind a long read. When there is nothing to commit, the log is written
back and truncated.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

log = logging.getLogger("gateway.ledger")

LARGE_BYTES: Final = 8 << 20
"""Twice the size at which SQLite checkpoints by itself, 1,000 pages."""

ALARM_BYTES: Final = 64 << 20
"""The size at which the log is reported: a reader that never ends keeps it from being cut back."""

RETRY_SECONDS: Final = 5.0
"""The pause after an attempt: a reader may have been in the way."""


class WalKeeper:
    """Truncates the log of one database, on the connection's thread."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path.with_name(path.name + "-wal")
        self._clock = clock
        self._not_before_seconds = clock()
        self._is_warned = False
        self.size_bytes = 0
        """The size when it was last looked at."""

    def look_after(self, connection: sqlite3.Connection, *, idle: bool) -> None:
        """Truncate the log if that is due and possible; warn when it has grown too large."""
        self._note_size(self._truncate_if_due(connection, idle=idle))

    def _truncate_if_due(self, connection: sqlite3.Connection, *, idle: bool) -> int:
        """Return the size in bytes that is left."""
        size = self._measure()
        if not idle or size < LARGE_BYTES or self._clock() < self._not_before_seconds:
            return size
        self._not_before_seconds = self._clock() + RETRY_SECONDS
        with suppress(sqlite3.Error):  # if the disk fails, the next commit reports it
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self._measure()

    def _note_size(self, size: int) -> None:
        """Note the size; warn when the log has grown too large, and again the next time it does."""
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
