"""Entries, and the statements over them."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, Final

import pytest

from gateway.ledger.call_records import sum_statement
from gateway.ledger.records import (
    MAX_INTEGER,
    CodeStatus,
    CodeTerms,
    Conflict,
    EntryFilter,
    EntryKind,
    InvalidCode,
    NotFound,
    Refused,
    StoredSecret,
)
from gateway.ledger.sql.entries import RUNS_OF_ALL
from gateway.times import DAY_MS
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of, settlement
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks
from tests.ledger.sql.requests import add_requests, make_item
from tests.support.rows import each_row


def test_a_balance_stays_what_the_ledger_can_keep(books: AnyBooks) -> None:
    room_nano = MAX_INTEGER - 1000
    books.entries.post("a", "credit", room_nano, note="")
    with pytest.raises(Refused) as refusal:
        books.entries.post("a", "credit", 1, note="")
    assert refusal.value.field == "amount"
    books.entries.post("a", "correction", -MAX_INTEGER, note="n")
    books.entries.post("a", "correction", -MAX_INTEGER, note="n")
    with pytest.raises(Refused):
        books.entries.post("a", "correction", -1, note="n")


@each_row("changed", [{"kind": "correction"}, {"amount_nano": 6}, {"note": "other"}])
def test_a_repeated_post_must_be_the_same(books: AnyBooks, changed: dict[str, object]) -> None:
    post: dict[str, Any] = {
        "account": "a",
        "kind": "credit",
        "amount_nano": 5,
        "note": "n",
        "idempotency_key": "k",
    }
    first = books.entries.post(**post)
    assert books.entries.post(**post) == first
    with pytest.raises(Conflict):
        books.entries.post(**{**post, **changed})
    assert books.accounts.read("a").balance_nano == 1005


def test_another_account_may_use_the_same_idempotency_key(books: AnyBooks) -> None:
    books.accounts.create("b", credit_nano=0, operator=False)
    for account in ("a", "b"):
        assert (
            books.entries.post(account, "credit", 5, note="", idempotency_key="k").account
            == account
        )
    assert books.accounts.read("b").balance_nano == 5


def test_a_correction_names_a_request_of_its_account(books: AnyBooks) -> None:
    with pytest.raises(NotFound) as refusal:
        books.entries.post("a", "correction", 5, note="", request_id="req_1")
    assert refusal.value.field == "request_id"


def test_a_run_goes_on_where_its_times_left_nothing(books: AnyBooks, clock: Clock) -> None:
    """`limit` counts the entries that were looked at, so an empty run need not be the last."""
    for _ in range(4):
        clock.now_ms += 1
        books.entries.post("a", "credit", 1, note="")
    chosen = EntryFilter(1, "credit", until_ms=NOW_MS + 2)
    run = books.entries.read_run(chosen, None, 3)
    assert run.entries == ()
    rest = books.entries.read_run(chosen, run.next_id, 3)
    assert [entry.created_ms - NOW_MS for entry in rest.entries] == [1, 0]
    assert rest.next_id is None
    since = EntryFilter(1, since_ms=NOW_MS + 4)
    assert [one.created_ms for one in books.entries.read_run(since, None, 9).entries] == [
        NOW_MS + 4
    ]
    assert (books.entries.count(1), books.entries.count(1, "correction")) == (5, 0)


@pytest.fixture
def codes(books: AnyBooks) -> dict[CodeStatus, str]:
    """Make one code of each status; return their ids."""
    names: tuple[CodeStatus, ...] = ("open", "redeemed", "void", "expired")
    for number, name in enumerate(names):
        row = StoredSecret(f"code_{number}", name.encode().ljust(32), "AAAA")
        expires_ms = NOW_MS if name == "expired" else NOW_MS + 1
        books.codes.add([row], CodeTerms("batch", 7, expires_ms, "note"), NOW_MS - 5)
    books.codes.redeem("a", b"redeemed".ljust(32))
    books.codes.void("code_2")
    return {name: f"code_{number}" for number, name in enumerate(names)}


def test_each_status_lists_its_own(books: AnyBooks, codes: dict[CodeStatus, str]) -> None:
    for status, code_id in codes.items():
        total, (found,) = books.codes.read_page(status, "batch", None, None)
        assert (total, found.id, found.status(NOW_MS)) == (1, code_id, status)
    assert books.codes.read_page(None, "other", None, None) == (0, [])
    total, page = books.codes.read_page(None, None, "code_3", 2)
    assert (total, [one.id for one in page]) == (4, ["code_2", "code_1"])


def test_only_what_is_open_can_be_redeemed(
    books: AnyBooks, codes: dict[CodeStatus, str], clock: Clock
) -> None:
    for name in codes:
        if name != "open":
            with pytest.raises(InvalidCode):
                books.codes.redeem("a", name.encode().ljust(32))
    clock.now_ms += 1
    with pytest.raises(InvalidCode):
        books.codes.redeem("a", b"open".ljust(32))
    assert books.accounts.read("a").balance_nano == 1007
    entry, *_ = books.entries.read_latest("a", 1)
    assert (entry.kind, entry.amount_nano, entry.note) == ("code", 7, "code ····AAAA")


def test_voiding_spares_what_was_redeemed(
    books: AnyBooks, codes: dict[CodeStatus, str], clock: Clock
) -> None:
    with pytest.raises(Conflict, match="was redeemed by 'a'"):
        books.codes.void(codes["redeemed"])
    clock.now_ms -= 1
    assert books.codes.void(codes["void"]).voided_ms == NOW_MS, "it keeps its time"
    assert books.codes.void_batch("batch") == 2, "the open one, and the one not yet expired"
    assert books.codes.void_batch("batch") == 0
    for void in (books.codes.void, books.codes.void_batch):
        with pytest.raises(NotFound):
            void("unknown")


def test_a_code_for_an_unknown_account_stays_open(
    books: AnyBooks, codes: dict[CodeStatus, str]
) -> None:
    with pytest.raises(NotFound):
        books.codes.redeem("nobody", b"open".ljust(32))
    (found,) = books.codes.read_page("open", None, None, None)[1]
    assert found.id == codes["open"]


FIRST: Final = 20_000
"""The first day of the time; it has 30."""


@pytest.fixture
def moved(books: AnyBooks, clock: Clock) -> AnyBooks:
    """Move two balances before, in and behind the time."""
    key = key_id_of(create_key(books, "a"))
    for day, amount_nano in ((FIRST - 1, 7), (FIRST, 40), (FIRST + 29, 500), (FIRST + 30, 6000)):
        clock.now_ms = day * DAY_MS
        books.entries.credit("a", amount_nano)
        books.entries.correct("a", -1, note="n")
        ended = settlement(amount_nano // 2, ended_ms=clock.now_ms)
        add_requests(books.connection, [make_item(1, key, clock.now_ms - 5, ended)], clock.now_ms)
    books.accounts.create("b", credit_nano=9)
    return books


def test_openings_and_movements_make_the_closings(moved: AnyBooks) -> None:
    before, inside, behind = (
        moved.statements.read(*days)
        for days in ((0, FIRST), (FIRST, FIRST + 30), (FIRST + 30, FIRST + 99))
    )
    assert [astuple(one) for one in inside] == [("a", 1003, 540, 0, 0, -270, -2, 1271)]
    assert (before[0].closing_nano, behind[0].opening_nano) == (1003, 1271)
    assert moved.statements.read(FIRST, FIRST + 30, "a") == inside
    for line in behind:
        assert line.closing_nano == moved.accounts.read(line.account).balance_nano
    total = ("total", 1271, 6009, 0, 0, -3000, -1, 4279)
    assert astuple(sum_statement(behind)) == total
    with pytest.raises(NotFound):
        moved.statements.read(FIRST, FIRST + 30, "none")


@pytest.mark.parametrize("kind", RUNS_OF_ALL)
def test_the_entries_of_all_accounts_are_those_of_each(
    moved: AnyBooks, kind: EntryKind | None
) -> None:
    each = [
        one
        for account_id in (1, 2)
        for one in moved.entries.read_run(EntryFilter(account_id, kind), None, 99).entries
    ]
    run = moved.entries.read_run(EntryFilter(None, kind), None, 2)
    found = list(run.entries)
    while run.next_id is not None:
        run = moved.entries.read_run(EntryFilter(None, kind), run.next_id, 2)
        found += run.entries
    assert found == sorted(each, key=lambda one: one.id, reverse=True)
    assert moved.entries.count(None, kind) == len(found)
    since = EntryFilter(None, kind, since_ms=FIRST * DAY_MS, until_ms=(FIRST + 1) * DAY_MS)
    inside = [one for one in found if one.created_ms == FIRST * DAY_MS]
    assert list(moved.entries.read_run(since, None, 99).entries) == inside
