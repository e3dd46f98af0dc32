"""The verbs of budgets: what may be a name and an amount, and how one is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.admin import accounts, keys
from gateway.ledger.key_records import Allowance, KeyTerms
from gateway.ledger.records import NotFound, Refused
from gateway.ledger.sql.books.books import Books
from gateway.money import MAX_AMOUNT_NANO

A_DAY = Allowance(10**9, "day")


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    with accounts.open_books(tmp_path / "gateway.db", create=True) as opened:
        accounts.add_account(opened, "a")
        accounts.add_account(opened, "b")
        yield opened


@pytest.mark.parametrize("name", ["", " team", "x" * 101, "a\nb", "12", "10/day", "none", "-"])
def test_a_name_cannot_be_taken_for_something_else(books: Books, name: str) -> None:
    with pytest.raises(Refused) as refused:
        accounts.add_budget(books, "a", name, A_DAY)
    assert refused.value.field == "name"
    team = accounts.add_budget(books, "a", "team", A_DAY)
    with pytest.raises(Refused):
        accounts.edit_budget(books, team.id, {"name": name})


@pytest.mark.parametrize("amount_nano", [0, -1, MAX_AMOUNT_NANO + 1])
def test_an_amount_is_above_zero_and_within_reason(books: Books, amount_nano: int) -> None:
    wrong = Allowance(amount_nano, "day")
    team = accounts.add_budget(books, "a", "team", A_DAY)
    with pytest.raises(Refused):
        accounts.add_budget(books, "a", "crew", wrong)
    with pytest.raises(Refused):
        accounts.edit_budget(books, team.id, {"allowance": wrong})
    with pytest.raises(Refused) as refused:
        keys.add_key(books, "a", own=wrong)
    assert refused.value.field == "budget_amount"
    key = keys.add_key(books, "a").key
    with pytest.raises(Refused):
        keys.edit_key(books, key.id, {}, own=wrong)


def test_an_edit_of_nothing_is_refused(books: Books) -> None:
    team = accounts.add_budget(books, "a", "team", A_DAY)
    with pytest.raises(Refused, match="nothing to change"):
        accounts.edit_budget(books, team.id, {})


def test_a_budget_is_found_by_id_and_by_name(books: Books) -> None:
    mine = accounts.add_budget(books, "a", "team", A_DAY)
    assert accounts.find_budget(books, "team") == mine
    assert accounts.find_budget(books, str(mine.id)) == mine
    theirs = accounts.add_budget(books, "b", "team", A_DAY)
    with pytest.raises(Refused, match=rf"give its id: {mine.id} of 'a', {theirs.id} of 'b'"):
        accounts.find_budget(books, "team")
    assert accounts.find_budget(books, "team", "b") == theirs
    with pytest.raises(NotFound):
        accounts.find_budget(books, str(mine.id), "b")


def test_a_key_has_one_budget(books: Books) -> None:
    """Its own takes the place of a shared one, and the other way round."""
    team = accounts.add_budget(books, "a", "team", A_DAY)
    key = keys.add_key(books, "a", KeyTerms(budget_id=team.id)).key
    assert key.budget is not None
    assert key.budget.name == "team"
    own = keys.edit_key(books, key.id, {}, own=Allowance(7, "week")).budget
    assert own is not None
    assert (own.name, own.amount_nano, own.period) == (None, 7, "week")
    rotated = keys.rotate_key(books, key.id).key
    assert rotated.budget == own
    assert keys.edit_key(books, rotated.id, {"budget_id": None}).budget is None
