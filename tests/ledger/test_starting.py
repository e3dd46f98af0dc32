"""A start that cannot be, or takes long, says so in words that help an operator."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from gateway.ledger import LedgerError, open_ledger
from gateway.ledger.sqlite import schema
from gateway.ledger.sqlite.files import mark_lock
from gateway.ledger.sqlite.reasons import explain
from gateway.ledger.sqlite.serving import progress
from tests.ledger.kit import make_place
from tests.long.million import History, fill_first_version

PATH: Final = Path("/srv/gateway.db")
SMALL: Final = History(requests=60, days=3, models=3, keys=4, models_per_key=2)


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("its words")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
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


def test_a_lock_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    lock = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(LedgerError, match=r"gateway\.db\.lock: "):
        mark_lock(lock, tmp_path / "gateway.db")
    os.close(lock)


async def test_a_long_start_tells_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is held up by another program's lock until it was told."""
    monkeypatch.setattr(progress, "TELL_SECONDS", 0.001)
    monkeypatch.setattr(schema, "BUSY_MS", 60_000)
    path = tmp_path / "gateway.db"
    fill_first_version(path, SMALL)
    told: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def tell(text: str) -> None:
            told.append(text)
            if "migrating" in text and other.in_transaction:
                other.execute("ROLLBACK")

        async with open_ledger(path, tell=tell):
            assert "progress" not in {task.get_name() for task in asyncio.all_tasks()}
    assert f"migrating to version {len(schema.MIGRATIONS)} of the schema, for 0 s so far" in told


async def test_a_short_start_tells_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    async with open_ledger(make_place(tmp_path).path, tell=told.append):
        assert told == []
