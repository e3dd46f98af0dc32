"""The connection of the books: transactions inside one another, one state, errors of ours."""

from __future__ import annotations

import pytest

from gateway.ledger.records import Actor, LedgerError
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import ONLY_SQLITE, AnyBooks, BooksPlace


def test_a_change_inside_another_is_a_part_of_it(books: AnyBooks) -> None:
    def change() -> None:
        with books.changing():
            books.accounts.suspend("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert not books.accounts.read("a").suspended
    assert not books.connection.in_transaction


def test_a_snapshot_sees_one_state_and_changes_nothing(
    books: AnyBooks, place: BooksPlace, clock: Clock
) -> None:
    with place.open(clock) as other:
        with books.snapshot():
            assert not books.accounts.read("a").suspended
            other.accounts.suspend("a")
            with books.snapshot():
                assert not books.accounts.read("a").suspended
        assert books.accounts.read("a").suspended


def test_failures_of_a_database_are_errors_of_the_ledger(books: AnyBooks) -> None:
    for use in (books.reading, books.snapshot, books.changing):
        with pytest.raises(LedgerError, match="nowhere") as error, use() as connection:
            connection.execute("SELECT * FROM nowhere")
        assert type(error.value.__cause__).__module__.startswith(("sqlite3", "psycopg"))
        assert not books.connection.in_transaction


def test_a_change_waits_for_others_as_long_as_told(
    books: AnyBooks, place: BooksPlace, clock: Clock
) -> None:
    books.wait_for_others(1)
    with place.open(clock) as other, other.changing(), pytest.raises(LedgerError, match="lock"):
        books.accounts.suspend("a")
    books.accounts.suspend("a")


@ONLY_SQLITE
def test_a_long_statement_is_given_up(books: AnyBooks) -> None:
    books.give_up_when(lambda: True)
    long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(LedgerError, match="interrupted"):
        books.read_number(long)


def test_an_event_has_the_actor_of_its_time(books: AnyBooks) -> None:
    books.note("first", account="a")
    books.actor = Actor("boss", "192.0.2.7")
    books.note("second", account=None, target="t", detail="d")
    second, first, *_ = books.events.read_page(None, None, 5)
    assert (first.actor, first.address, first.account) == ("cli", None, "a")
    assert (second.actor, second.address, second.account) == ("boss", "192.0.2.7", None)
    assert (second.target, second.detail) == ("t", "d")
