"""Upgrades of a file: the copy from before, the note of one that is under way, what is said of it meanwhile.

The note names the process and the copy, and goes once the upgrade is committed. An upgrade that was killed
or failed leaves it, and the next one replaces that copy: the database may have changed since.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import chain, count
from pathlib import Path
from typing import Final

from gateway.base.progress import Progress
from gateway.ledger.records import LedgerError, LedgerLocked
from gateway.ledger.sqlite import faults, files
from gateway.ledger.sqlite.backup import write_backup

_NOTE: Final = ".upgrading"
"""The end of the note's name."""


def copy_aside(
    path: Path,
    version: int,
    connect_reader: Callable[[Path], sqlite3.Connection],
    progress: Progress,
) -> None:
    """Write a copy, named after its version, that the older program can go back to.

    The caller's transaction keeps others from changing the database meanwhile. Raises LedgerError.
    """
    named = f"{path.name}.version-"
    wanted = path.with_name(f"{named}{version}")
    left = _read_note(path).partition(" ")[2]
    try:
        # Removed before the copying: there may be no room for both.
        if left.startswith(named) and left == Path(left).name:
            path.with_name(left).unlink(missing_ok=True)
        copy = _find_free_name(wanted)
        step = f"copying the database of version {version} to {copy}"
        progress(step)
        _write_note(path, copy.name)
        # By a connection of its own: VACUUM cannot run inside the caller's transaction.
        with closing(connect_reader(path)) as reader:
            write_backup(reader, copy, progress, step)
    except (LedgerError, OSError) as error:
        forget(path)
        raise LedgerError(
            f"{path}: it stays at version {version} of the schema, because no copy of it could be"
            f" written to {wanted} first: {error}"
        ) from error


def _find_free_name(wanted: Path) -> Path:
    """Return the name, with a number if there is such a file: a copy overwrites nothing."""
    numbered = (wanted.with_name(f"{wanted.name}-{number}") for number in count(2))
    # A broken symbolic link takes its name as well, so `lexists`.
    return next(path for path in chain((wanted,), numbered) if not os.path.lexists(path))


def lock_out_servers(path: Path) -> int:
    """Lock the database against processes that serve; return the descriptor to close. Raises LedgerError."""
    try:
        return files.take_lock(path)
    except LedgerLocked as error:
        serves = "a gateway of an older version serves from it; restart that one first"
        raise LedgerError(f"{path}: {describe_upgrade(path) or serves}") from error


def explain(path: Path, error: sqlite3.Error | OSError) -> LedgerError:
    """Return the error to raise, as `faults.explain` does, which does not know who keeps a database locked."""
    is_busy = faults.primary_code(error) == sqlite3.SQLITE_BUSY
    if is_busy and (upgrade := describe_upgrade(path)):
        return LedgerError(f"{path}: {upgrade}")
    return faults.explain(path, error)


def describe_upgrade(path: Path) -> str | None:
    """Say which process upgrades a database; None if none does. It holds the lock all the while."""
    pid = _read_note(path).partition(" ")[0]
    if not pid or files.is_marked(path) or not files.is_served(path):
        return None
    return f"it is being upgraded by process {pid}; try again when that is done"


def forget_killed(path: Path) -> None:
    """Remove the note of an upgrade that was killed after its commit and before it removed the note."""
    if files.name_beside(path, _NOTE).exists() and describe_upgrade(path) is None:
        forget(path)


def forget(path: Path) -> None:
    """Remove the note of an upgrade."""
    with suppress(OSError):  # it is read again only by the next upgrade, which removes it, too
        files.name_beside(path, _NOTE).unlink()


def _write_note(path: Path, copy: str) -> None:
    note = os.open(
        files.name_beside(path, _NOTE), os.O_CREAT | os.O_WRONLY | os.O_TRUNC, files.FILE_MODE
    )
    try:
        os.write(note, f"{os.getpid()} {copy}".encode())
        os.fsync(note)
    finally:
        os.close(note)


def _read_note(path: Path) -> str:
    try:
        return files.name_beside(path, _NOTE).read_text(encoding="utf-8")
    except OSError:
        return ""
