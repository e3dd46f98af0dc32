"""The files of a database: the lock of the process that serves, and whether they are still there.

SQLite goes on writing to a file that was removed or replaced, and all of that is lost. So the
serving process writes into its lock file which database it has open. Other programs compare that
with the file they find, and a start without a database notices that there was one.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import Final

from gateway.ledger.base import LedgerError, LedgerLocked
from gateway.ledger.sqlite.reasons import explain

FILE_MODE: Final = 0o600
"""Only the owner reads and writes: the database has everybody's accounts."""
_MARK_BYTES: Final = 64
"""Bytes read of the lock file's mark, which is an inode's number."""


class FilesLost(sqlite3.OperationalError):
    """A file that is open was removed or replaced."""


class FileWatch:
    """The files that are open under the names of one database."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._paths = (path, _add(path, "-wal"), _add(path, "-shm"))
        self._opened = [_identify(one) for one in self._paths]

    def check(self) -> None:
        """Raises FilesLost."""
        for path, opened in zip(self._paths, self._opened, strict=True):
            if _identify(path) != opened:
                raise FilesLost(
                    f"{path} was removed or replaced while it was in use. Before you stop the gateway,"
                    f" put the same file back, or copy {self._path.name} and its -wal from"
                    f" /proc/{os.getpid()}/fd: what is in them is nowhere else"
                )


def take_lock(path: Path) -> int:
    """Lock `<path>.lock` for the life of this process; return the descriptor to close.

    One process serves from a database, because holds live in its memory. The lock file stays when
    the lock goes: unlinking it would let two processes lock two files.

    Raises:
        LedgerLocked: another process serves from this database.
        LedgerError: the lock file cannot be made.
    """
    lock_path = _add(path, ".lock")
    try:
        descriptor = os.open(lock_path, os.O_CREAT | os.O_RDWR, FILE_MODE)
    except OSError as error:
        raise explain(lock_path, error) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise LedgerLocked(f"{path}: another gateway serves from this database") from error
    return descriptor


def mark_lock(lock: int, path: Path) -> None:
    """Write into the lock file which file is served. Raises LedgerError."""
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, _identify(path).encode(), 0)
    except OSError as error:
        raise explain(_add(path, ".lock"), error) from error


def check_names(path: Path) -> None:
    """Refuse a database with a second name, or one that is not the file being served.

    Raises LedgerError. SQLite names the log by the database, so two names would have two logs.
    """
    try:
        links = path.stat().st_nlink
    except OSError:
        return  # to open it says why
    if links > 1:
        raise LedgerError(
            f"{path}: the file has {links} names (hard links), and each would have a log of its own;"
            " keep one name"
        )
    lock_path = _add(path, ".lock")
    mark = _read_mark(lock_path)
    if mark and mark != _identify(path) and _is_locked(lock_path):
        raise LedgerError(
            f"{path}: the gateway that runs serves from another file, which was removed or replaced;"
            " its log says what to do"
        )


def check_absence(path: Path) -> None:
    """Refuse to make a database where there was one. Raises LedgerError."""
    lock_path, log_path = _add(path, ".lock"), _add(path, "-wal")
    if path.exists():
        return
    trace = lock_path if _read_mark(lock_path) else log_path if log_path.exists() else None
    if trace is not None:
        raise LedgerError(
            f"{path}: there is no database, but {trace.name} shows that there was one. Put it back"
            f" or restore a backup; to begin with empty books, delete {trace.name}"
        )


def is_served(path: Path) -> bool:
    """Return whether a process serves from this database."""
    try:
        return _is_locked(_add(path, ".lock"))
    except OSError:  # no lock file: nobody ever served
        return False


def _add(path: Path, suffix: str) -> Path:
    """Name a file beside the database, as SQLite does: behind a symbolic link."""
    path = path.resolve()
    return path.with_name(path.name + suffix)


def _identify(path: Path) -> str:
    """Return the device and number of a file; "" if there is none."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_dev}:{found.st_ino}"


def _read_mark(lock_path: Path) -> str:
    try:
        return lock_path.read_text()[:_MARK_BYTES]
    except OSError:
        return ""


def _is_locked(lock_path: Path) -> bool:
    descriptor = os.open(lock_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
