"""A copy of the ledger while it is in use: one snapshot, whatever is written meanwhile.

`VACUUM INTO` reads as any reader does, so the server's writer goes on. SQLite's own backup
interface would begin anew at every commit of another process, and on a busy ledger never end.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path

from gateway.ledger.base import LedgerError


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
        _copy(connection, name)
        os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
        part.rename(target)
        _sync_folder(target.parent)
    finally:
        os.close(descriptor)
        with suppress(FileNotFoundError):
            part.unlink()
    return size


def _copy(connection: sqlite3.Connection, name: str) -> None:
    """Into an empty file, which keeps its mode."""
    try:
        connection.execute("VACUUM INTO ?", (name,))
    except sqlite3.Error as error:
        raise LedgerError(f"the backup could not be made: {error}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
