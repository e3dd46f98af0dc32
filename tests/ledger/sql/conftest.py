"""Books with one account `a`, in each of the databases; a connection to such a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.opening import open_books
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.schema import connect
from tests.ledger.player import Clock
from tests.ledger.sql.places import BooksPlace, find_kinds, make_cases


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
