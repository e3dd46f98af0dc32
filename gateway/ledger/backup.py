"""A copy of the ledger while it is in use: one snapshot, whatever is written meanwhile.

`VACUUM INTO` reads as any reader does, so the server's writer goes on. SQLite's own backup
interface would begin anew at every commit of another process, and on a busy ledger never end.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.ledger.base import LedgerError

SYNC_SECONDS: Final = 0.02
STEPS_BETWEEN_LOOKS: Final = 10_000
"""Of SQLite's machine: about a millisecond."""


def write_backup(connection: sqlite3.Connection, target: Path) -> int:
    """Copy the database to `target`, which appears whole or not at all; its size in bytes.

    The copy is made beside it, with mode 0600, and is on the disk before it gets its name.

    Raises:
        LedgerError: the ledger could not be read, or the copy not be written.
        OSError: the folder does not take a file.
    """
    descriptor, name = tempfile.mkstemp(
        prefix=f".{target.name}.", suffix=".part", dir=target.parent
    )
    part = Path(name)
    try:
        _copy(connection, name, descriptor)
        os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
        part.rename(target)
        _sync_folder(target.parent)
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            part.unlink()
    return size


def _copy(connection: sqlite3.Connection, name: str, descriptor: int) -> None:
    """Into an empty file, which keeps its mode.

    It is put on the disk as it grows: all at the end, and the server's commits would wait for it.
    """
    synced = time.monotonic()

    def sync_now_and_then() -> None:
        nonlocal synced
        if time.monotonic() - synced >= SYNC_SECONDS:
            os.fdatasync(descriptor)
            synced = time.monotonic()

    connection.set_progress_handler(sync_now_and_then, STEPS_BETWEEN_LOOKS)
    try:
        connection.execute("VACUUM INTO ?", (name,))
    except sqlite3.Error as error:
        raise LedgerError(f"the backup could not be made: {error}") from error
    finally:
        connection.set_progress_handler(None, 0)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
