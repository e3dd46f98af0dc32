"""Keeps the write-ahead log small.

SQLite writes its pages back into the database unless a reader is in the way, but the file keeps
its length, and it grows behind a long read. When there is nothing to commit, the log is written
back and truncated.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

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

    def look_after(self, connection: sqlite3.Connection, *, idle: bool) -> int:
        """Truncate the log if that is due and possible; return its size in bytes."""
        size = self._measure()
        if not idle or size < LARGE_BYTES or self._clock() < self._not_before_seconds:
            return size
        self._not_before_seconds = self._clock() + RETRY_SECONDS
        with suppress(sqlite3.Error):  # if the disk fails, the next commit reports it
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self._measure()

    def _measure(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:  # no log yet; if the disk fails, the next commit reports it
            return 0
