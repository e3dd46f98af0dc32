"""The books of an account and an operator, with a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.admin import accounts
from gateway.ledger.sqlite.books import SqliteBooks
from tests.admin.visits import NAME, OPERATOR, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
def books(path: Path, clock: Clock) -> Iterator[SqliteBooks]:
    with SqliteBooks(path, create=True, clock=clock) as books:
        accounts.add_account(books, NAME)
        accounts.add_account(books, OPERATOR, operator=True)
        yield books
