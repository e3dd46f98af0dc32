"""Accounts, keys and budgets: what may still be changed, how it is noted, how the server hears of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.ledger.call_records import Spent
from gateway.ledger.key_records import Allowance, KeyChanges, KeyTerms
from gateway.ledger.records import AccountOrder, Conflict, NotFound, StoredSecret
from gateway.ledger.sql.accounts import RANKS
from gateway.ledger.sqlite.schema import connect
from gateway.times import DAY_MS
from tests.console.calls import check_plan
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks, BooksPlace
from tests.support.rows import each_row

NEW = StoredSecret("key_new", b"n" * 32, "last")


def test_a_replaced_key_can_neither_be_replaced_again_nor_live_longer(books: AnyBooks) -> None:
    old = key_id_of(create_key(books, "a"))
    books.keys.replace(old, NEW, grace_ms=1000)
    deeds: tuple[Callable[[], object], ...] = (
        lambda: books.keys.replace(old, StoredSecret("key_x", b"x" * 32, "last"), grace_ms=5),
        lambda: books.keys.edit(old, {"expires_ms": None}),
    )
    for deed in deeds:
        with pytest.raises(Conflict) as refusal:
            deed()
        assert refusal.value.code == "already_replaced"
    assert books.keys.edit(old, {"name": "old"}).terms.expires_ms == NOW_MS + 1000
    assert books.keys.read(old).replaced_by == NEW.id


def test_a_grace_is_no_longer_than_the_key_had(books: AnyBooks) -> None:
    old = key_id_of(create_key(books, "a", KeyTerms(expires_ms=NOW_MS + 10)))
    books.keys.replace(old, NEW, grace_ms=1000)
    assert books.keys.read(old).terms.expires_ms == NOW_MS + 10


@each_row("ended", ["revoked", "expired"])
def test_a_key_that_ended_stays_as_it_is(books: AnyBooks, clock: Clock, ended: str) -> None:
    key_id = key_id_of(create_key(books, "a", KeyTerms(expires_ms=NOW_MS + 1)))
    if ended == "revoked":
        books.keys.revoke(key_id)
    clock.now_ms += 1
    deeds: tuple[Callable[[], object], ...] = (
        lambda: books.keys.edit(key_id, {"expires_ms": None}),
        lambda: books.keys.replace(key_id, NEW, grace_ms=0),
    )
    for deed in deeds:
        with pytest.raises(Conflict) as refusal:
            deed()
        assert refusal.value.code == "key_dead"
    assert books.keys.read(key_id).status(clock()) == ended


def test_changes_are_described_without_what_did_not_change(books: AnyBooks) -> None:
    key_id = key_id_of(create_key(books, "a"))
    said: list[tuple[KeyChanges, str]] = [
        ({"name": "n"}, "name 'n'"),
        ({"cap_nano": 10**9, "expires_ms": NOW_MS + 1}, "cap 1.00; expires 2023-11-14 22:13 UTC"),
        ({"cap_nano": None, "expires_ms": None}, "cap none; expires never"),
        ({"models": ("m", "n")}, "2 models"),
        ({"models": None}, "all models"),
    ]
    for changes, detail in said:
        books.keys.edit(key_id, changes)
        assert books.events.read_page("key.edit", None, 1)[0].detail == detail


def test_pages_are_from_the_newest_and_can_leave_out_what_ended(
    books: AnyBooks, clock: Clock
) -> None:
    key_ids = []
    for _ in range(3):
        key_ids.append(key_id_of(create_key(books, "a")))
        clock.now_ms += 1
    books.keys.revoke(key_ids[1])
    total, page = books.keys.read_page(1, live_at_ms=None, after=None, limit=2)
    assert (total, [key.id for key in page]) == (3, key_ids[:0:-1])
    after = (page[-1].created_ms, page[-1].id)
    assert books.keys.read_page(1, live_at_ms=None, after=after, limit=2)[1][0].id == key_ids[0]
    total, page = books.keys.read_page(1, live_at_ms=clock(), after=None, limit=9)
    assert (total, [key.id for key in page]) == (2, [key_ids[2], key_ids[0]])


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
