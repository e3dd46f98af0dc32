"""The books of an account and an operator, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.ledger.sqlite.books import SqliteBooks
from tests.admin.visits import NAME, OPERATOR, Clock


@pytest.fixture(name="clock")
def make_clock() -> Clock:
    return Clock()


@pytest.fixture(name="path")
def find_path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture(name="books")
def open_accounts(path: Path, clock: Clock) -> Iterator[SqliteBooks]:
    with SqliteBooks(path, create=True, clock=clock) as books:
        books.accounts.create(NAME)
        books.accounts.create(OPERATOR, operator=True)
        yield books
