"""Statements over entries, and what no statement of SQL may change of orders."""

from __future__ import annotations

from dataclasses import astuple
from typing import Final

import pytest

from gateway.base.times import DAY_MS
from gateway.ledger.call_records import sum_statement
from gateway.ledger.records import EntryFilter, EntryKind, NotFound
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.entries import RUNS_OF_ALL
from tests.ledger.contract.kit import create_key, key_id_of, settlement
from tests.ledger.player import Clock
from tests.ledger.sql.places import BooksPlace
from tests.ledger.sql.requests import make_item
from tests.support.rows import each_row

FIRST: Final = 20_000
"""The first day of the time; it has 30."""


@pytest.fixture
def moved(books: Books, place: BooksPlace, clock: Clock) -> Books:
    """Move two balances before, in and behind the time."""
    key = key_id_of(create_key(books, "a"))
    for day, amount_nano in ((FIRST - 1, 7), (FIRST, 40), (FIRST + 29, 500), (FIRST + 30, 6000)):
        clock.now_ms = day * DAY_MS
        books.entries.credit("a", amount_nano)
        books.entries.correct("a", -1, note="n")
        ended = settlement(amount_nano // 2, ended_ms=clock.now_ms)
        made = make_item(1, key, clock.now_ms - 5, ended)
        place.add_requests(books.connection, [made], clock.now_ms)
    books.accounts.create("b", credit_nano=9)
    return books


def test_openings_and_movements_make_the_closings(moved: Books) -> None:
    before, inside, behind = (
        moved.statements.read(*days)
        for days in ((0, FIRST), (FIRST, FIRST + 30), (FIRST + 30, FIRST + 99))
    )
    assert [astuple(one) for one in inside] == [("a", 1003, 540, 0, 0, -270, -2)]
    assert (before[0].closing_nano, behind[0].opening_nano) == (1003, 1271)
    assert moved.statements.read(FIRST, FIRST + 30, "a") == inside
    for line in behind:
        assert line.closing_nano == moved.accounts.read(line.account).balance_nano
    total = sum_statement(behind)
    assert astuple(total) == ("total", 1271, 6009, 0, 0, -3000, -1)
    assert total.closing_nano == 4279
    with pytest.raises(NotFound):
        moved.statements.read(FIRST, FIRST + 30, "none")


@each_row("kind", RUNS_OF_ALL)
def test_the_entries_of_all_accounts_are_those_of_each(
    moved: Books, kind: EntryKind | None
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
