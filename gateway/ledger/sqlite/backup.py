"""Copies of a database file while it is in use.

`VACUUM INTO` reads as any reader does, so the server's writer goes on. SQLite's backup interface
would start again at every commit of another process, and on a busy ledger never end.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from gateway.base.progress import Progress
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.database import read_number

SYNC_SECONDS: Final = 0.02
"""How often the copy is synced: its bytes must not pile up and delay the ledger's own sync."""
STEPS_BETWEEN_LOOKS: Final = 10_000
"""Steps of SQLite's virtual machine between two looks at the clock, about a millisecond."""
_PART_NAME: Final = re.compile(r"\..+\.[a-z0-9_]{8}\.part")
"""Names of parts: the target's and eight characters chosen by `mkstemp`."""
_SIZE: Final = (
    "SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)
_BESIDE: Final = ("-journal", "-wal", "-shm")
"""The ends of the names of what SQLite writes beside a file that it changes."""


def write_backup(
    connection: sqlite3.Connection, target: Path, progress: Progress, step: str
) -> int:
    """Copy the database to `target`, completely or not at all; return the size in bytes.

    The copy is written to a file beside it, with mode 0600, and synced before it gets its name.

    Raises:
        LedgerError: the ledger could not be read or the copy could not be written.
        OSError: no file can be created in the folder.
    """
    descriptor, part = make_part(target)
    try:
        remove_remains(target.parent)
        _copy(connection, part, descriptor, partial(progress, step))
        os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
        part.rename(target)
        # A crash of the machine can undo a renaming until the folder is synced.
        sync_folder(target.parent)
    finally:
        os.close(descriptor)
        part.unlink(missing_ok=True)
    return size


def make_part(target: Path) -> tuple[int, Path]:
    """Make and lock a file beside the target; again, if another process removed it before the lock."""
    while True:
        try:
            descriptor, name = tempfile.mkstemp(
                prefix=f".{target.name}.", suffix=".part", dir=target.parent
            )
        except OSError as error:
            error.filename = str(target)  # which people know, other than the part
            raise
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, Path(name)
        os.close(descriptor)


def remove_remains(folder: Path) -> None:
    """Remove the parts of backups and imports that were killed, of any target; those under way are locked.

    Files that SQLite wrote beside a part outlive it, so they are removed, too.
    """
    for part in folder.glob(".*.part"):
        if _PART_NAME.fullmatch(part.name):
            with suppress(OSError), part.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
    for end in _BESIDE:
        for journal in folder.glob(f".*.part{end}"):
            part = journal.with_name(journal.name.removesuffix(end))
            if _PART_NAME.fullmatch(part.name) and not part.exists():
                with suppress(OSError):
                    journal.unlink()


def _copy(
    connection: sqlite3.Connection,
    part: Path,
    descriptor: int,
    tell: Callable[[int, int, str], object],
) -> None:
    """Copy into an empty file, which keeps its mode.

    The file is synced as it grows: one sync at the end would hold up the server's commits.
    """
    synced = time.monotonic()
    size = read_number(connection, _SIZE)

    def sync_now_and_then() -> None:
        nonlocal synced
        if time.monotonic() - synced >= SYNC_SECONDS:
            os.fdatasync(descriptor)
            synced = time.monotonic()
            tell(os.fstat(descriptor).st_size, size, "bytes")

    # The handler returns None: anything true would interrupt the copy.
    connection.set_progress_handler(sync_now_and_then, STEPS_BETWEEN_LOOKS)
    try:
        connection.execute("VACUUM INTO ?", (str(part),))
    except sqlite3.Error as error:
        raise LedgerError(f"the backup could not be made: {error}") from error
    finally:
        connection.set_progress_handler(None, 0)


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
