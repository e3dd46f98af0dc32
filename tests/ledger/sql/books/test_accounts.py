"""Accounts: what a list shows of them, and what a refused change leaves behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.ledger.call_records import Spent
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import AccountOrder, Conflict, NotFound
from gateway.ledger.sql.books.accounts import RANKS
from gateway.ledger.sqlite.schema import connect
from tests.console.calls import check_plan
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of
from tests.ledger.sql.books.places import AnyBooks
from tests.support.rows import each_row


def test_a_new_account_begins_with_an_entry_of_its_credit(books: AnyBooks) -> None:
    books.accounts.create("empty", credit_nano=0, operator=True)
    assert [one.amount_nano for one in books.entries.read_latest("a", 5)] == [1000]
    assert books.entries.read_latest("empty", 5) == []
    assert [(one.name, one.operator) for one in books.accounts.read_all()] == [
        ("a", False),
        ("empty", True),
    ]


def test_a_name_is_taken_once_and_the_loser_changes_nothing(books: AnyBooks) -> None:
    before = books.events.count(None)
    with pytest.raises(Conflict) as refusal:
        books.accounts.create("a", credit_nano=5, operator=True)
    assert (refusal.value.code, refusal.value.field) == ("name_taken", "name")
    assert books.accounts.read("a").balance_nano == 1000
    assert books.events.count(None) == before


def test_suspending_is_told_to_the_server_and_noted_with_its_reason(books: AnyBooks) -> None:
    assert books.accounts.suspend("a", reason="unpaid").suspended
    assert not books.accounts.resume("a").suspended
    changes = books.connection.execute("SELECT kind, id FROM changes ORDER BY seq").fetchall()
    assert changes[-2:] == [("account", "1"), ("account", "1")]
    resumed, suspended, *_ = books.events.read_page(None, None, 5)
    assert (suspended.action, suspended.detail) == ("account.suspend", "unpaid")
    assert (resumed.action, resumed.detail) == ("account.resume", "")


def test_a_standing_counts_the_keys_that_work(books: AnyBooks) -> None:
    """Not those that are revoked, expired or spent; unknown ids are left out."""
    account_id = books.accounts.find_id("a")
    books.keys.revoke(key_id_of(create_key(books, "a")))
    for terms in (KeyTerms(), KeyTerms(expires_ms=NOW_MS), KeyTerms(cap_nano=0)):
        create_key(books, "a", terms)
    (standing,) = books.accounts.read_standings([account_id, 99], today=0)
    assert (standing.account.name, standing.keys, standing.spent) == ("a", 1, Spent(0, 0, 0))
    assert (standing.last_used_ms, standing.has_password) == (None, False)
    books.signins.set_password("a", "hash")
    assert books.accounts.read_standing(account_id, today=0).has_password


def test_unknown_accounts_are_not_found(books: AnyBooks) -> None:
    for ask in (
        lambda: books.accounts.read("b"),
        lambda: books.accounts.find_id("b"),
        lambda: books.accounts.find_name(99),
        lambda: books.accounts.read_standing(99, today=0),
        lambda: books.accounts.suspend("b"),
    ):
        with pytest.raises(NotFound):
            ask()


@each_row("by", RANKS)
def test_accounts_are_ranked_by_a_search_of_each_ones_rows(
    tmp_path: Path, by: AccountOrder
) -> None:
    path = tmp_path / "gateway.db"
    connect(path, create=True).close()
    check_plan(path, RANKS[by], scans=("accounts",))
