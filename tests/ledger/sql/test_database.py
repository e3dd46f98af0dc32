"""Books over both databases: changes, snapshots, races, replies that are kept."""

from __future__ import annotations

import pytest

from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books import Books
from tests.ledger.player import Clock
from tests.ledger.sql.places import ONLY_SQLITE, BooksPlace


def test_a_change_inside_another_is_a_part_of_it(books: Books) -> None:
    def change() -> None:
        with books.changing():
            books.accounts.suspend("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert not books.accounts.read("a").suspended
    assert not books.connection.in_transaction


def test_a_snapshot_sees_one_state_and_changes_nothing(
    books: Books, place: BooksPlace, clock: Clock
) -> None:
    with place.open(clock) as other:
        with books.snapshot():
            assert not books.accounts.read("a").suspended
            other.accounts.suspend("a")
            with books.snapshot():
                assert not books.accounts.read("a").suspended
        assert books.accounts.read("a").suspended


def test_failures_of_a_database_are_errors_of_the_ledger(books: Books) -> None:
    for use in (books.reading, books.snapshot, books.changing):
        with pytest.raises(LedgerError, match="nowhere") as error, use() as connection:
            connection.execute("SELECT * FROM nowhere")
        assert type(error.value.__cause__).__module__.startswith(("sqlite3", "psycopg"))
        assert not books.connection.in_transaction


def test_a_change_waits_for_others_as_long_as_told(
    books: Books, place: BooksPlace, clock: Clock
) -> None:
    books.wait_for_others(1)
    with place.open(clock) as other, other.changing(), pytest.raises(LedgerError, match="lock"):
        books.accounts.suspend("a")
    books.accounts.suspend("a")


@ONLY_SQLITE
def test_a_long_statement_is_given_up(books: Books) -> None:
    books.give_up_when(lambda: True)
    long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(LedgerError, match="interrupted"):
        books.read_number(long)
