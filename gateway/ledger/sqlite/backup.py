"""Backups: a consistent copy of the ledger while it is in use.

`VACUUM INTO` reads as any reader does, so the server's writer goes on. SQLite's backup interface
would start again at every commit of another process, and on a busy ledger never end.
"""

from __future__ import annotations

import fcntl
import glob
import os
import sqlite3
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from gateway.ledger.base import LedgerError

SYNC_SECONDS: Final = 0.02
"""How often the copy is synced: its bytes must not pile up and delay the ledger's own sync."""
STEPS_BETWEEN_LOOKS: Final = 10_000
"""Steps of SQLite's virtual machine between two looks at the clock, about a millisecond."""


def write_backup(connection: sqlite3.Connection, target: Path) -> int:
    """Copy the database to `target`, completely or not at all; return the size in bytes.

    The copy is written to a file beside it, with mode 0600, and synced before it gets its name.

    Raises:
        LedgerError: the ledger could not be read or the copy could not be written.
        OSError: no file can be created in the folder.
    """
    descriptor, name = tempfile.mkstemp(
        prefix=f".{target.name}.", suffix=".part", dir=target.parent
    )
    part = Path(name)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _remove_remains(target)
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


def _remove_remains(target: Path) -> None:
    """Remove the parts of backups that were killed; those under way are locked."""
    for part in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            part.unlink()


def _copy(connection: sqlite3.Connection, name: str, descriptor: int) -> None:
    """Copy into an empty file, which keeps its mode.

    The file is synced as it grows: one sync at the end would hold up the server's commits.
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
