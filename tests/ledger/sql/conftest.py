"""Books with one account `a`, in each of the databases; a connection to such a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from gateway.base.times import DAY_MS
from gateway.ledger.opening import open_books
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.schema import connect
from tests.ledger.contract.kit import create_key, key_id_of, settlement
from tests.ledger.player import Clock
from tests.ledger.sql.places import BooksPlace, find_kinds, make_cases
from tests.ledger.sql.requests import make_item


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "gateway.db"
    with open_books(path, create=True) as books:
        books.accounts.create("a", credit_nano=1000)
    with closing(connect(path)) as connection:
        yield connection


@pytest.fixture
def clock() -> Clock:
    """The books' clock, which the test sets."""
    return Clock()


@pytest.fixture(params=make_cases())
def place(request: pytest.FixtureRequest, tmp_path: Path) -> BooksPlace:
    return find_kinds()[request.param].take(request, tmp_path)


@pytest.fixture
def books(place: BooksPlace, clock: Clock) -> Iterator[Books]:
    with place.open(clock, create=True) as books:
        books.accounts.create("a", credit_nano=1000, operator=False)
        yield books


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
