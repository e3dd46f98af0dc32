"""Places for the tests' books: a file, or a database of an extra."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest
from _pytest.mark import ParameterSet

from gateway.ledger.serving.queue import Item
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Connection
from gateway.ledger.sql.rows import end_period
from gateway.ledger.sqlite.books import SqliteBooks
from tests.ledger.sql.requests import add_requests
from tests.support.extras import find_modules

ONLY_SQLITE: Final = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
"""For a test of what SQLite alone has."""
TRIGGERS: Final = (
    *("entries_no_update", "entries_no_delete", "requests_settle_once", "requests_no_delete"),
    *("codes_end_once", "codes_no_delete", "orders_keep_terms"),
)
"""They would hinder who spoils the books."""


class BooksPlace(ABC):
    @abstractmethod
    def open(self, clock: Callable[[], int], *, create: bool = False) -> Books: ...

    @abstractmethod
    def refuse_writes(self, connection: Connection) -> None:
        """Let it only read, as with a full disk, or a server that became a standby."""

    @abstractmethod
    def add_requests(self, connection: Connection, items: Sequence[Item], now_ms: int) -> None:
        """Write requests and their charges at a time."""

    @abstractmethod
    def begin_spoiling(self, connection: Connection) -> None:
        """Begin a transaction that no rule of the database hinders."""


@dataclass(frozen=True, slots=True)
class FilePlace(BooksPlace):
    path: Path

    def open(self, clock: Callable[[], int], *, create: bool = False) -> SqliteBooks:
        return SqliteBooks(self.path, create=create, clock=clock)

    def refuse_writes(self, connection: Connection) -> None:
        connection.execute("PRAGMA query_only = ON")

    def add_requests(self, connection: Connection, items: Sequence[Item], now_ms: int) -> None:
        assert isinstance(connection, sqlite3.Connection)
        connection.create_function("end_period", 2, end_period, deterministic=True)
        add_requests(connection, items, now_ms)

    def begin_spoiling(self, connection: Connection) -> None:
        for sql in (
            "PRAGMA foreign_keys = OFF",
            "BEGIN",
            *(f"DROP TRIGGER IF EXISTS {one}" for one in TRIGGERS),
        ):
            connection.execute(sql)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of database."""

    take: Callable[[pytest.FixtureRequest, Path], BooksPlace]
    """Gives an empty place, in the folder if it is a file; tests take it one after the other."""
    lend: Callable[[pytest.FixtureRequest, Path], AbstractContextManager[BooksPlace]]
    """Gives one that no other test has."""


def _take_file(_: pytest.FixtureRequest, folder: Path) -> FilePlace:
    return FilePlace(folder / "gateway.db")


@cache
def find_kinds() -> dict[str, Kind]:
    """Return a file, and the databases of the extras that are here."""
    extras = {name: module.BOOKS for name, module in find_modules("places").items()}
    return {"sqlite": Kind(_take_file, lambda *given: nullcontext(_take_file(*given))), **extras}


def make_cases() -> list[ParameterSet]:
    """Return the names of kinds for a fixture; those that need a server are slow."""
    return [
        pytest.param(name, marks=() if name == "sqlite" else pytest.mark.slow)
        for name in find_kinds()
    ]
