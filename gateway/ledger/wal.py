"""The write-ahead log, kept small.

SQLite writes its pages back into the database by itself as long as no reader is in the way, but
the file keeps the length it once had, and behind a reader that lasts it grows. When nothing is to
be committed the log is written back and cut to nothing.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

LARGE_BYTES: Final = 8 << 20
"""Twice of what a log has that SQLite checkpoints by itself, at 1,000 pages."""

ALARM_BYTES: Final = 64 << 20

RETRY_SECONDS: Final = 5.0
"""A reader in the way is not asked more often than this."""


class WalKeeper:
    """Looks after the log of one database; lives on the connection's thread."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path.with_name(path.name + "-wal")
        self._clock = clock
        self._not_before_seconds = clock()

    def look_after(self, connection: sqlite3.Connection, *, idle: bool) -> int:
        """The log's bytes, after it was cut where that was due and possible."""
        size = self._measure()
        if not idle or size < LARGE_BYTES or self._clock() < self._not_before_seconds:
            return size
        self._not_before_seconds = self._clock() + RETRY_SECONDS
        with suppress(sqlite3.Error):  # whether the disk is in order, the next commit tells
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self._measure()

    def _measure(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:  # not there, or the disk is out of order: the next commit tells
            return 0
