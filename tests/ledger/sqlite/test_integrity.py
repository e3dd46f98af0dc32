"""The check of the file itself: damaged pages are found, and the start does not wait for it."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.admin import accounts
from gateway.ledger.records import LedgerError
from gateway.ledger.sqlite.audit import check_file, read_through
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from tests.ledger.kit import Place, charge, find_key, make_place


@pytest.fixture
async def place(tmp_path: Path) -> Place:
    """A ledger of which a check takes more than one step."""
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        for _ in range(10):
            await charge(ledger, find_key(ledger, place), 70)
    return place


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


async def test_damaged_pages_are_found(place: Place) -> None:
    overwrite_pages(place.path)
    with accounts.open_books(place.path) as books:
        report = books.audit()
    assert not report.ok
    assert all("the file is damaged" in text for text in report.problems)


async def test_a_server_does_not_start_from_damaged_pages(place: Place) -> None:
    overwrite_pages(place.path)
    with pytest.raises(LedgerError, match=r"damaged"):
        async with SqliteLedger.open(place.path):
            pass


def count_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_the_file_is_read_through_and_stays_locked(place: Place) -> None:
    """A descriptor that is opened and closed would drop the locks that SQLite has on the file."""
    with closing(connect(place.path)) as connection:
        before = count_descriptors()
        assert read_through(connection) == place.path.stat().st_size
        assert count_descriptors() == before
    with closing(sqlite3.connect(":memory:")) as connection:
        assert read_through(connection) == 0, "there is no file"


async def test_the_check_at_the_start_takes_no_longer_than_it_may(place: Place) -> None:
    """A large file is checked in part: the rest is for the full audit."""
    with closing(connect(place.path)) as connection:
        looks = iter(range(10**6))
        assert check_file(connection, full=False, clock=lambda: 1e9 * next(looks)) == ()
        assert next(looks) == 2, "it was over at the first look"


@pytest.mark.parametrize(("least", "problems"), [(1, 0), (2, 1)])
async def test_the_check_at_the_start_ends_at_its_first_problem(
    place: Place, least: int, problems: int
) -> None:
    """The first of many rows breaks a rule, or none does: the time is too short for them all."""
    with closing(connect(place.path)) as connection:
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
