"""Books with one account `a`, and a clock that the test sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.ledger.sqlite.books import SqliteBooks
from tests.ledger.contract.kit import NOW_MS


@dataclass
class Clock:
    now_ms: int = NOW_MS

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def books(tmp_path: Path, clock: Clock) -> Iterator[SqliteBooks]:
    with SqliteBooks(tmp_path / "gateway.db", create=True, clock=clock) as books:
        books.accounts.create("a", credit_nano=1000, operator=False)
        yield books
