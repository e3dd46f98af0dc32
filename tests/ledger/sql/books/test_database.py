"""The connection of the books: transactions inside one another, one state, errors of ours."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger import Actor, LedgerError
from gateway.ledger.sql.books.books import SqlBooks
from gateway.ledger.sqlite.schema import connect


def test_a_change_inside_another_is_a_part_of_it(books: SqlBooks) -> None:
    def change() -> None:
        with books.changing():
            books.accounts.suspend("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert not books.accounts.read("a").suspended
    assert not books.connection.in_transaction


def test_a_snapshot_sees_one_state_and_changes_nothing(books: SqlBooks, tmp_path: Path) -> None:
    with SqlBooks(tmp_path / "gateway.db") as other:
        with books.snapshot():
            assert not books.accounts.read("a").suspended
            other.accounts.suspend("a")
            with books.snapshot():
                assert not books.accounts.read("a").suspended
        assert books.accounts.read("a").suspended


def test_failures_of_sqlite_are_errors_of_the_ledger(books: SqlBooks) -> None:
    for use in (books.reading, books.snapshot, books.changing):
        with pytest.raises(LedgerError, match="no such table") as error, use() as connection:
            connection.execute("SELECT * FROM nowhere")
        assert isinstance(error.value.__cause__, sqlite3.Error)


def test_a_change_waits_for_others_as_long_as_told(books: SqlBooks, tmp_path: Path) -> None:
    books.wait_for_others(1)
    with closing(connect(tmp_path / "gateway.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked"):
            books.accounts.suspend("a")
        other.execute("ROLLBACK")
    books.accounts.suspend("a")


def test_a_long_statement_is_given_up(books: SqlBooks) -> None:
    books.give_up_when(lambda: True)
    long = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(LedgerError, match="interrupted"):
        books.read_number(long)


def test_an_event_has_the_actor_of_its_time(books: SqlBooks) -> None:
    books.note("first", account="a")
    books.actor = Actor("boss", "192.0.2.7")
    books.note("second", account=None, target="t", detail="d")
    second, first, *_ = books.events.read_page(None, None, 5)
    assert (first.actor, first.address, first.account) == ("cli", None, "a")
    assert (second.actor, second.address, second.account) == ("boss", "192.0.2.7", None)
    assert (second.target, second.detail) == ("t", "d")
