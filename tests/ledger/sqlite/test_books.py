"""The books of a file: its size, a change in force, and a backup of a ledger that is locked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.serving.schedule import POLL_SECONDS
from gateway.ledger.sqlite.books import IN_FORCE_SECONDS, SqliteBooks
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from tests.ledger.kit import find_key, make_place, until


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
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        with closing(SqliteBooks(place.path)) as books:
            books.keys.revoke(place.key_id)
            await asyncio.to_thread(books.wait_in_force)
        await until(lambda: key.revoked_ms is not None)
    assert IN_FORCE_SECONDS >= 2 * POLL_SECONDS
