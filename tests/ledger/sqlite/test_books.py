"""The books of a file: its size, a change in force, a locked ledger's backup, moves to another file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.opening import make_ledger
from gateway.ledger.records import BadRecord, LedgerError, MoveRecord
from gateway.ledger.serving.writer import POLL_SECONDS
from gateway.ledger.sqlite.books import IN_FORCE_SECONDS, SqliteBooks, read_records
from gateway.ledger.sqlite.schema import VERSION, connect
from gateway.ledger.sqlite.serving.ledger import open_sqlite
from tests.ledger.kit import find_key, make_place, query, until
from tests.long.million import History, fill
from tests.support.rows import each_row


@pytest.fixture
def books(tmp_path: Path) -> Iterator[SqliteBooks]:
    with SqliteBooks(tmp_path / "gateway.db", create=True) as books:
        yield books


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
    assert books.events.find_last("ledger.backup") is None


async def test_a_change_is_in_force_where_a_process_serves(tmp_path: Path) -> None:
    """Without one there is nothing to wait for; `IN_FORCE_SECONDS` is more than the pause of polls."""
    place = make_place(tmp_path)
    async with open_sqlite(place.path) as ledger:
        key = find_key(ledger, place)
        with closing(SqliteBooks(place.path)) as books:
            books.keys.revoke(place.key_id)
            await asyncio.to_thread(books.wait_in_force)
        await until(lambda: key.revoked_ms is not None)
    assert IN_FORCE_SECONDS >= 2 * POLL_SECONDS


HISTORY = History(requests=60, days=2, models=2, keys=2, models_per_key=2)


def test_records_of_the_present_version_make_a_ledger_of_it(tmp_path: Path) -> None:
    fill(tmp_path / "old.db", HISTORY)
    with closing(sqlite3.connect(tmp_path / "old.db")) as old:
        report = make_ledger(tmp_path / "new.db", VERSION, read_records(old))
    assert report.ok
    assert query(tmp_path / "new.db", "PRAGMA user_version") == [(VERSION,)]
    assert query(tmp_path / "new.db", "SELECT sum(requests + failed) FROM daily") == [
        (HISTORY.requests,)
    ]


@each_row("version", [0, -1, VERSION - 1, VERSION + 1])
def test_another_version_is_refused(tmp_path: Path, version: int) -> None:
    with pytest.raises(
        BadRecord, match=f"version {version} is not {VERSION}; export it with the gateway"
    ):
        make_ledger(tmp_path / "new.db", version, [])


def test_no_name_reaches_the_statement(tmp_path: Path) -> None:
    """A file may name any table and column; only those of the schema become SQL."""
    for record in (
        MoveRecord("accounts; DROP TABLE keys", {"id": 1}),
        MoveRecord("accounts", {"id) VALUES (1); --": 1}),
        MoveRecord("accounts", {}),
    ):
        with pytest.raises(BadRecord, match=r"no table .* with such columns"):
            make_ledger(tmp_path / "new.db", VERSION, [record])


def test_numbers_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRecord, match="accounts: Python int too large"):
        make_ledger(tmp_path / "new.db", VERSION, [MoveRecord("accounts", {"id": 2**64})])


def test_a_ledger_that_was_there_is_not_replaced(tmp_path: Path) -> None:
    """The lock file of one whose database was moved away tells of it."""
    (tmp_path / "new.db.lock").write_text("x")
    with pytest.raises(LedgerError, match=r"there is no database, but new\.db\.lock shows"):
        make_ledger(tmp_path / "new.db", VERSION, [])
