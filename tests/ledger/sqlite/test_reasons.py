"""Why a database cannot be used, in words that help an operator."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Final

import pytest

from gateway.ledger.sqlite.files import explain
from tests.support.rows import each_row

PATH: Final = Path("/srv/gateway.db")


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("its words")
    error.sqlite_errorcode = code
    return error


@each_row(
    ("error", "expected"),
    [
        (sqlite_error(sqlite3.SQLITE_FULL), "the disk is full; free some space (its words)"),
        (sqlite_error(sqlite3.SQLITE_IOERR_WRITE), "the disk fails; see the kernel's log, and"),
        (sqlite_error(sqlite3.SQLITE_READONLY_DBMOVED), "it is read-only"),
        (sqlite_error(sqlite3.SQLITE_CORRUPT), "it is damaged; restore a backup"),
        (sqlite_error(sqlite3.SQLITE_CANTOPEN), "there is no such file"),
        (sqlite_error(sqlite3.SQLITE_SCHEMA), "its words"),
        (sqlite3.ProgrammingError("its words"), "its words"),
        (OSError(errno.ENOSPC, "its words"), "the disk is full; free some space (its words)"),
        (OSError(errno.EACCES, "its words"), "this user may not read and write it and its folder"),
        (OSError("its words"), "its words"),
    ],
)
def test_the_reason_is_told_in_words(error: sqlite3.Error | OSError, expected: str) -> None:
    assert str(explain(PATH, error)).startswith(f"{PATH}: {expected}")


def test_an_io_error_on_a_full_disk_is_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite says so where it cannot make the file that its processes share."""
    error = sqlite_error(sqlite3.SQLITE_IOERR_SHMSIZE)
    assert "the disk fails" in str(explain(tmp_path / "gateway.db", error))
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, *[0] * 9)))
    assert "the disk is full" in str(explain(tmp_path / "gateway.db", error))
