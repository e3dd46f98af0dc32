"""Books with one account `a`, in each of the databases; a connection to such a database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.opening import open_books
from gateway.ledger.sqlite.schema import connect
from tests.ledger.player import Clock
from tests.ledger.sql.places import AnyBooks, BooksPlace
from tests.support.postgres import Cluster


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


@pytest.fixture(scope="session")
def database(postgres: Cluster) -> str:
    """A database with the tables, which the tests of a worker use one after the other."""
    url = postgres.make_database()
    BooksPlace(url).open(Clock(), create=True).close()
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> BooksPlace:
    if request.param == "sqlite":
        return BooksPlace(tmp_path / "gateway.db")
    place = BooksPlace(request.getfixturevalue("database"))
    place.empty()
    return place


@pytest.fixture
def books(place: BooksPlace, clock: Clock) -> Iterator[AnyBooks]:
    with place.open(clock, create=True) as books:
        books.accounts.create("a", credit_nano=1000, operator=False)
        yield books
