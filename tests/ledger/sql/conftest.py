"""A connection to a database with one account `a`, which was credited 1000."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.opening import open_books
from gateway.ledger.sqlite.schema import connect


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "gateway.db"
    with open_books(path, create=True) as books:
        books.accounts.create("a", credit_nano=1000)
    with closing(connect(path)) as connection:
        yield connection
