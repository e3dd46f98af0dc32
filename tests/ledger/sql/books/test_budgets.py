"""Budgets in the books: what an edit does to the sum, and how the server hears of it."""

from __future__ import annotations

from gateway.ledger.key_records import Allowance
from gateway.times import DAY_MS
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks, BooksPlace

CHANGES = "SELECT kind, id FROM changes WHERE kind <> 'account' ORDER BY seq"


def test_an_edit_in_the_same_period_keeps_the_sum_as_it_is(books: AnyBooks) -> None:
    """It is not summed up again, which could take long in a month of many requests."""
    team = books.budgets.create("a", "team", Allowance(5, "month"))
    books.connection.execute("UPDATE budgets SET spent_nano = 4")
    assert books.budgets.edit(team.id, {"allowance": Allowance(7, "month")}).spent_nano == 4
    assert books.budgets.edit(team.id, {"allowance": Allowance(7, "week")}).spent_nano == 0


def test_the_server_is_told_of_each_change(books: AnyBooks) -> None:
    def read_changes() -> list[tuple[object, ...]]:
        return books.connection.execute(CHANGES).fetchall()

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


def test_what_is_shown_is_the_period_of_the_clock(books: AnyBooks, place: BooksPlace) -> None:
    team = books.budgets.create("a", "team", Allowance(5, "day"))
    with place.open(Clock(NOW_MS + DAY_MS)) as later:
        later.connection.execute("UPDATE budgets SET spent_nano = 4")
        assert later.budgets.read(team.id).remaining_nano == 5
    assert books.budgets.read(team.id).remaining_nano == 1
