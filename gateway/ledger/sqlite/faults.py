"""Errors of SQLite and of the system on a database's files, in words for operators: what is wrong, what to do."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

from gateway.extension import find_advice
from gateway.ledger.records import LedgerError, LedgerMissing

PRIMARY_CODE: Final = 0xFF
"""Extended result codes carry the primary one in their lowest byte."""
FULL_BYTES: Final = 64 << 10
"""Less is full: SQLite asks for 32 KiB at a time, and reports that it got none as an I/O error."""

_FULL: Final = "the disk is full; free some space"
_FORBIDDEN: Final = "this user may not read and write it and its folder; see who owns them"
REASONS: Final = {
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: "the disk fails; see the kernel's log, and restore a backup if need be",
    sqlite3.SQLITE_CANTOPEN: _FORBIDDEN,
    sqlite3.SQLITE_PERM: _FORBIDDEN,
    sqlite3.SQLITE_READONLY: "it is read-only, by its owner's or its disk's settings",
    sqlite3.SQLITE_BUSY: "another program keeps it locked; end that program",
    sqlite3.SQLITE_NOTADB: "it is no ledger, or its first page is damaged; restore a backup",
    sqlite3.SQLITE_CORRUPT: "it is damaged; restore a backup",
    sqlite3.SQLITE_IOERR_GETTEMPPATH: "no folder for temporary files can be written; make /tmp"
    " writable, or name one in the variable SQLITE_TMPDIR",
}
"""Faults of a database, by SQLite's codes of errors: primary ones, or an extended one of more use."""
_SYSTEM: Final = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: "its disk is read-only",
}


_NO_ACCESS: Final = frozenset(
    {
        *(errno.EACCES, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR),
        *(errno.EPERM, errno.EROFS),
        *(sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR),
        *(sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY),
    }
)
"""The errors of the system and of SQLite for a file that cannot be opened; their numbers differ."""
_BESIDE: Final = ("", "-wal", "-shm", ".lock")
"""The files of a database, by what their names end in."""


def explain(path: Path, error: sqlite3.Error | OSError) -> LedgerError:
    """Return the error to raise: what is wrong with this database, what to do, and the original words."""
    code = (error.errno or 0) if isinstance(error, OSError) else primary_code(error)
    if code in _NO_ACCESS and (obstacle := find_access_obstacle(path)):
        return LedgerError(f"{path}: {obstacle}")
    if isinstance(error, OSError):
        said = error.strerror or str(error)
        return LedgerError(f"{path}: {_join(_SYSTEM.get(code), said)}")
    if code == sqlite3.SQLITE_IOERR and _is_full(path):
        code = sqlite3.SQLITE_FULL
    if code == sqlite3.SQLITE_CANTOPEN and not path.exists():
        return LedgerMissing(f"{path}: there is no such file")
    return LedgerError(f"{path}: {describe(error, code)}")


def find_access_obstacle(path: Path) -> str | None:
    """Return why this user cannot use a database; None if nothing is in the way."""
    path, find = Path(os.path.realpath(path)), find_advice().find_obstacle
    for end in _BESIDE:
        if obstacle := find(path.with_name(path.name + end), os.W_OK):
            return f"{path.name}{end}: {obstacle}" if end else obstacle
    return None


def describe(error: sqlite3.Error, code: int | None = None) -> str:
    """Describe what is wrong with a database that was open."""
    exact: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    known = REASONS.get(exact) if exact > PRIMARY_CODE else None
    reason = known or REASONS.get(primary_code(error) if code is None else code)
    return _join(reason, str(error))


def _join(reason: str | None, said: str) -> str:
    return f"{reason} ({said})" if reason else said


def primary_code(error: Exception) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & PRIMARY_CODE


def _is_full(path: Path) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < FULL_BYTES
