"""Budgets in the books: what an edit does to the sum, and how the server hears of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.ledger import Allowance, Books
from gateway.ledger.sql.books.books import SqlBooks
from gateway.times import DAY_MS
from tests.ledger.contract.kit import create_key, key_id_of
from tests.ledger.kit import query

NOW_MS = 1_700_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
def books(path: Path) -> Iterator[Books]:
    with SqlBooks(path, create=True, clock=lambda: NOW_MS) as opened:
        opened.accounts.create("a", credit_nano=0, operator=False)
        yield opened


def test_an_edit_in_the_same_period_keeps_the_sum_as_it_is(books: Books, path: Path) -> None:
    """It is not summed up again, which could take long in a month of many requests."""
    team = books.budgets.create("a", "team", Allowance(5, "month"))
    with SqlBooks(path, clock=lambda: NOW_MS) as other:
        other.connection.execute("UPDATE budgets SET spent_nano = 4")
    assert books.budgets.edit(team.id, {"allowance": Allowance(7, "month")}).spent_nano == 4
    assert books.budgets.edit(team.id, {"allowance": Allowance(7, "week")}).spent_nano == 0


def test_the_server_is_told_of_each_change(books: Books, path: Path) -> None:
    def read_changes() -> list[tuple[object, ...]]:
        return query(path, "SELECT kind, id FROM changes WHERE kind <> 'account' ORDER BY seq")

    team = books.budgets.create("a", "team", Allowance(5, "month"))
    assert read_changes() == [], "no key spends from it yet"
    key_id = key_id_of(create_key(books, "a"))
    books.keys.edit(key_id, {"budget_id": team.id})
    assert read_changes() == [("key", key_id)] * 2
    books.budgets.edit(team.id, {"name": "crew"})
    assert read_changes()[2:] == [("budget", str(team.id))]
    books.keys.edit(key_id, {}, own=Allowance(5, "day"))
    books.keys.edit(key_id, {}, own=Allowance(6, "day"))
    assert read_changes()[3:] == [("key", key_id), ("budget", str(team.id + 1)), ("key", key_id)]


def test_what_is_shown_is_the_period_of_the_clock(books: Books, path: Path) -> None:
    team = books.budgets.create("a", "team", Allowance(5, "day"))
    with SqlBooks(path, clock=lambda: NOW_MS + DAY_MS) as later:
        later.connection.execute("UPDATE budgets SET spent_nano = 4")
        assert later.budgets.read(team.id).remaining_nano == 5
    assert books.budgets.read(team.id).remaining_nano == 1
