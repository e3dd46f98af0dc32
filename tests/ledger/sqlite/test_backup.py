"""Backups of a file, and batches that are committed whole or not at all."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from stat import S_IMODE

import pytest

from gateway.ledger.base import Settlement
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.queue import Item, NotPendingError, Report
from gateway.ledger.sqlite.batch import KnownValues, commit_requests
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving import open_sqlite
from tests.ledger.contract.kit import admission, settlement, void
from tests.ledger.kit import Place, assert_sound, find_key, make_place, query
from tests.support.cli import Cli, make_cli
from tests.support.rows import each_row

CREDIT = 10**12


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return make_cli(tmp_path, capsys)


def test_backup_is_whole_and_private(cli: Cli, tmp_path: Path) -> None:
    """The command's words and refusals are in `cli/sessions/operator.txt`."""
    cli.done("account", "add", "alice", "--credit", "20")
    target = tmp_path / "copy.db"
    previous = os.umask(0)
    try:
        cli.done("backup", str(target))
    finally:
        os.umask(previous)
    assert S_IMODE(target.stat().st_mode) == 0o600
    for table in ("accounts", "entries", "changes", "sqlite_sequence", "sqlite_schema"):
        sql = (
            f"SELECT * FROM {table} ORDER BY 1, 2"
            if table != "sqlite_schema"
            else ("SELECT type, name, sql FROM sqlite_schema ORDER BY name")
        )
        assert query(target, sql) == query(cli.database, sql)
    assert query(target, "PRAGMA user_version") == query(cli.database, "PRAGMA user_version")


def test_backup_that_fails_leaves_no_file(place: Place, tmp_path: Path) -> None:
    """Half a copy is none: neither under its name nor beside it."""
    target = tmp_path / "copies" / "copy.db"
    target.parent.mkdir()
    with SqliteBooks(place.path) as books:
        books.connection.execute("BEGIN")  # VACUUM refuses to run in a transaction
        with pytest.raises(LedgerError, match="the backup could not be made"):
            books.back_up(target)
    assert list(target.parent.iterdir()) == []


KILLED_BACKUP = """
import os, signal, sys
from pathlib import Path
from gateway.ledger.sqlite import backup
from gateway.ledger.sqlite.books import SqliteBooks
backup._copy = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
SqliteBooks(Path(sys.argv[1])).back_up(Path(sys.argv[2]))
"""


def test_backup_removes_what_killed_ones_left(place: Place, tmp_path: Path) -> None:
    """A cron job names each backup by its day. Other backups under way and other files stay."""
    target = tmp_path / "copies" / "copy.db"
    target.parent.mkdir()
    words = (str(place.path), str(target.with_name("monday.db")))
    assert (
        subprocess.run([sys.executable, "-c", KILLED_BACKUP, *words], check=False).returncode == -9
    )
    (part,) = target.parent.iterdir()
    for killed in (part, target.with_name(".friday.db.abcd01_8.part")):
        for end in ("-journal", "-wal", "-shm"):
            killed.with_name(killed.name + end).touch()
    under_way = target.with_name(".tuesday.db.abcd01_9.part")
    others = [target.with_name(name) for name in (".copy.db.part", "film.abcd01_9.part", ".x.part")]
    others.append(under_way.with_name(f"{under_way.name}-journal"))
    for path in (under_way, *others):
        path.touch()
    with under_way.open("rb") as file, SqliteBooks(place.path) as books:
        fcntl.flock(file, fcntl.LOCK_EX)
        books.back_up(target)
    assert set(target.parent.iterdir()) == {target, under_way, *others}


def test_backup_begins_again_if_its_file_is_taken_for_a_remain(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another backup may find the file before it is locked."""
    target = tmp_path / "copies" / "copy.db"
    target.parent.mkdir()
    removed: list[str] = []
    make = tempfile.mkstemp

    def make_and_lose(prefix: str, suffix: str, dir: Path) -> tuple[int, str]:  # noqa: A002 - its name
        descriptor, name = make(suffix, prefix, dir)
        if not removed:
            Path(name).unlink()
            removed.append(name)
        return descriptor, name

    monkeypatch.setattr(tempfile, "mkstemp", make_and_lose)
    with SqliteBooks(place.path) as books:
        books.back_up(target)
    assert removed
    assert list(target.parent.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(target)) as copy:
        assert copy.execute("SELECT count(*) FROM accounts").fetchall() == [(1,)]


@each_row("first", [settlement(100), void()])
@each_row("second", [settlement(900), void()])
async def test_a_request_is_settled_once_in_the_books(
    tmp_path: Path, first: Settlement, second: Settlement
) -> None:
    """A posted request cannot be voided, nor the other way round; the row stays as it is."""
    place = make_place(tmp_path, credit_nano=5000)
    async with open_sqlite(place.path) as ledger:
        hold = ledger.hold(find_key(ledger, place), admission())
        await ledger.settle(hold, first)
    rows = "SELECT state, cost_nano FROM requests"
    before = query(place.path, rows)
    with closing(connect(place.path)) as connection, pytest.raises(NotPendingError):
        commit_requests(
            connection, [Item(hold, insert=False, settlement=second)], 1, KnownValues(), Report()
        )
    assert query(place.path, rows) == before
    assert_sound(place.path)
