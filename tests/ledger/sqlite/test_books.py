"""The audit and the books of a file: damage, a change in force, backups."""

from __future__ import annotations

import asyncio
import itertools
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.ledger.opening import open_books
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.writer import POLL_SECONDS
from gateway.ledger.sql import audit
from gateway.ledger.sqlite.books import (
    IN_FORCE_SECONDS,
    SqliteBooks,
    check_file,
    read_through,
    run_audit,
)
from gateway.ledger.sqlite.folds import fold
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving import open_sqlite
from tests.ledger.contract.kit import admission, charge, until, void
from tests.ledger.kit import Place, find_key, make_place, query, read_spoiled, serving

pytestmark = pytest.mark.usefixtures("quick_polls")

OPEN_UP = "DROP TRIGGER entries_no_update; DROP TRIGGER entries_no_delete;"
OPEN_UP += "DROP TRIGGER requests_settle_once; DROP TRIGGER requests_no_delete;"
OPEN_UP += "PRAGMA foreign_keys = OFF;"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return asyncio.run(make_history(tmp_path_factory.mktemp("history")))


@pytest.fixture
def place(history: Place, tmp_path: Path) -> Place:
    path = tmp_path / "gateway.db"
    shutil.copyfile(history.path, path)
    return replace(history, path=path)


async def make_history(folder: Path) -> Place:
    """Ten charges of 70, a void, a pending request, a credit and a correction."""
    place = make_place(folder, credit_nano=100_000)
    async with serving(place) as (ledger, key):
        for _ in range(10):
            await charge(ledger, key, 70)
        await ledger.settle(ledger.hold(key, admission()), void())
        await ledger.wait_admitted(ledger.hold(key, admission()))
    with open_books(place.path) as books:
        books.entries.credit("a", 5)
        books.entries.correct("a", -3, note="n")
        books.accounts.create("idle")
    return place


def tamper(place: Place, sql: str) -> None:
    with closing(sqlite3.connect(place.path)) as connection:
        connection.executescript(OPEN_UP + sql)


def test_sound_books_pass_and_become_a_checkpoint(place: Place) -> None:
    with SqliteBooks(place.path) as books:
        report = books.audit()
        assert report.ok
        assert (report.accounts, report.entries, report.problems) == (2, 13, ())
        assert (report.pending, report.interrupted) == (1, 0)
        fast = run_audit(books.connection, full=False, now_ms=1)
        assert (fast.ok, fast.entries) == (True, 0), "all was proven before"
        books.entries.credit("a", 5)
        fold(books.connection)
        assert run_audit(books.connection, full=False, now_ms=1).entries == 1
    assert query(place.path, "SELECT max(entry_id) FROM checkpoints") == [(14,)]


@pytest.mark.parametrize(("sql", "problem"), read_spoiled("in a file"))
def test_full_audit_finds(place: Place, sql: str, problem: str) -> None:
    """Faults that only SQLite's own check finds; `sql/test_audit` has the rest."""
    tamper(place, sql)
    with open_books(place.path) as books:
        report = books.audit()
    assert not report.ok
    assert any(problem in text for text in report.problems), report.problems


@pytest.fixture
async def charged(tmp_path: Path) -> Place:
    """A ledger of which a check takes more than one step."""
    charged = make_place(tmp_path)
    async with open_sqlite(charged.path) as ledger:
        for _ in range(10):
            await charge(ledger, find_key(ledger, charged), 70)
    return charged


PAGE_BYTES = 4096


def overwrite_pages(path: Path) -> None:
    """Overwrite pages that no sum reads, as a failing disk might."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name IN ('requests_by_account', 'events')"
        ).fetchall()
    with path.open("r+b") as file:
        for (page,) in pages:
            file.seek((page - 1) * PAGE_BYTES)
            file.write(b"\x5a" * PAGE_BYTES)


async def test_damaged_pages_are_found_and_not_served_from(charged: Place) -> None:
    overwrite_pages(charged.path)
    with open_books(charged.path) as books:
        report = books.audit()
    assert not report.ok
    assert all("the file is damaged" in text for text in report.problems)
    with pytest.raises(LedgerError, match=r"damaged"):
        async with open_sqlite(charged.path):
            pass


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_the_file_is_read_through_and_stays_locked(charged: Place) -> None:
    """A descriptor that is opened and closed would drop the locks that SQLite has on the file."""
    with closing(connect(charged.path)) as connection:
        before = count_descriptors()
        assert read_through(connection) == charged.path.stat().st_size
        assert count_descriptors() == before
    with closing(sqlite3.connect(":memory:")) as connection:
        assert read_through(connection) == 0, "there is no file"


async def test_the_check_at_the_start_takes_no_longer_than_it_may(charged: Place) -> None:
    """A large file is checked in part: the rest is for the full audit."""
    with closing(connect(charged.path)) as connection:
        looks = iter(range(10**6))
        assert check_file(connection, full=False, clock=lambda: 1e9 * next(looks)) == ()
        assert next(looks) == 2, "it was over at the first look"


@pytest.mark.parametrize(("least", "problems"), [(1, 0), (2, 1)])
async def test_the_check_at_the_start_ends_at_its_first_problem(
    charged: Place, least: int, problems: int
) -> None:
    """The first of many rows breaks a rule, or none does: the time is too short for them all."""
    with closing(connect(charged.path)) as connection:
        connection.execute(f"CREATE TABLE numbers (n INTEGER CHECK (n >= {least}))")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(
            "WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 10000)"
            " INSERT INTO numbers SELECT n FROM count"
        )
        connection.execute("PRAGMA ignore_check_constraints = OFF")
        clock = itertools.chain([0.0] * 5, itertools.repeat(1e9))
        found = check_file(connection, full=False, clock=lambda: next(clock))
        assert len(found) == problems
        assert (next(clock) > 0) == (problems == 0), "whether the time was up"


@pytest.fixture
def books(tmp_path: Path) -> Iterator[SqliteBooks]:
    with SqliteBooks(tmp_path / "gateway.db", create=True) as books:
        yield books


def test_an_error_after_which_sqlite_rolled_back_is_told(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that is full of temporary files: a second rollback would fail and hide it."""

    def fail(connection: sqlite3.Connection, *_: object, **__: object) -> None:
        connection.execute("ROLLBACK")
        raise sqlite3.OperationalError("its words")

    monkeypatch.setattr(audit, "prove", fail)
    with SqliteBooks(place.path) as books:
        with pytest.raises(LedgerError, match="its words"):
            books.audit()
        with pytest.raises(LedgerError, match="its words"), books.snapshot():
            fail(books.connection)


def test_the_size_is_that_of_database_and_log(books: SqliteBooks, tmp_path: Path) -> None:
    names = ("gateway.db", "gateway.db-wal")
    assert books.measure() == tuple((tmp_path / name).stat().st_size for name in names)
    (tmp_path / "gateway.db-wal").rename(tmp_path / "aside")
    assert books.measure()[1] == 0


def test_a_ledger_that_cannot_be_written_can_be_backed_up(
    books: SqliteBooks, tmp_path: Path
) -> None:
    books.wait_for_others(1)
    with closing(connect(tmp_path / "gateway.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        assert books.back_up(tmp_path / "copy.db") == (tmp_path / "copy.db").stat().st_size
    assert books.find_last_event("ledger.backup") is None


async def test_a_change_is_in_force_where_a_process_serves(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one there is nothing to wait for; `IN_FORCE_SECONDS` is more than the pause of polls."""
    monkeypatch.setattr("gateway.ledger.sqlite.books.IN_FORCE_SECONDS", 0.05)
    async with serving(place) as (_, key):
        with closing(SqliteBooks(place.path)) as books:
            books.keys.revoke(place.key_id)
            await asyncio.to_thread(books.wait_in_force)
        await until(lambda: key.revoked_ms is not None)
    assert IN_FORCE_SECONDS >= 2 * POLL_SECONDS
