"""Entries: the limits of an amount, repeated posts, and runs that times leave empty."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.ledger.records import MAX_INTEGER, Conflict, EntryFilter, NotFound, Refused
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks
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
