"""The table of implementations. Only this module of the suite knows what they are, and the extras."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Final, Protocol, TypeVar

import pytest
from _pytest.mark import ParameterSet

from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.serving import open_sqlite
from tests.ledger.faults import Faults
from tests.support.extras import find_modules

Test = TypeVar("Test", bound=Callable[..., object])
Clock = Callable[[], int]


class Needs(Enum):
    """Abilities that some tests of the contract need, and not every implementation has."""

    ONE_SERVER = "one process serves, and any other is refused"
    NODES = "several processes serve at once"
    FILES = "its backup is a file that the gateway writes"


class Storage(Protocol):
    """One ledger: how to open the two contracts, and how to break it."""

    def serve(
        self, *, clock: Clock, commit_seconds: float
    ) -> AbstractAsyncContextManager[ServingLedger]: ...

    def open_books(self, *, clock: Clock) -> Books: ...

    def fail_commits(self) -> AbstractContextManager[None]:
        """Let every commit of the serving process fail, inside the context."""

    def refuse_rows(self) -> None:
        """Let the database refuse each new row of `requests`, and take all else."""

    def spoil(self) -> None:
        """Change a balance without an entry, as no program of ours would."""


class SqliteStorage:
    def __init__(self, location: str) -> None:
        self._path = Path(location)
        self._faults = Faults()
        self.fail_commits = self._faults.fail_commits

    def serve(
        self, *, clock: Clock, commit_seconds: float
    ) -> AbstractAsyncContextManager[ServingLedger]:
        return open_sqlite(
            self._path, clock=clock, commit_seconds=commit_seconds, connector=self._faults.connect
        )

    def open_books(self, *, clock: Clock) -> Books:
        return SqliteBooks(self._path, create=True, clock=clock)

    def refuse_rows(self) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute(
                "CREATE TRIGGER refuse BEFORE INSERT ON requests"
                " BEGIN SELECT raise(ABORT, 'refused'); END"
            )

    def spoil(self) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute("UPDATE accounts SET balance_nano = balance_nano + 1")


@contextmanager
def lend_file(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    del request
    yield str(folder / "gateway.db")


@dataclass(frozen=True)
class Implementation:
    name: str
    make_storage: Callable[[str], Storage]
    """Opens the ledger at a location, in any process."""
    lend: Callable[[pytest.FixtureRequest, Path], AbstractContextManager[str]]
    """Gives the location of a new ledger: in a folder, or on a server."""
    has: frozenset[Needs]


SQLITE: Final = Implementation(
    "sqlite", SqliteStorage, lend_file, frozenset({Needs.ONE_SERVER, Needs.FILES})
)


@cache
def find_implementations() -> tuple[Implementation, ...]:
    """Return SQLite's, and those of the extras that are here."""
    return (SQLITE, *(module.LEDGER for module in find_modules("places").values()))


def needs(*capabilities: Needs) -> Callable[[Test], Test]:
    """Run a test only for the implementations that have these capabilities."""

    def mark(test: Test) -> Test:
        vars(test)["needs"] = frozenset(capabilities)
        return test

    return mark


def find_able(test: Callable[..., object]) -> list[Implementation]:
    """Return the implementations that a test of the contract runs for."""
    needed: frozenset[Needs] = vars(test).get("needs", frozenset())
    return [one for one in find_implementations() if needed <= one.has]


def make_cases(implementations: Iterable[Implementation]) -> list[ParameterSet]:
    """Make the cases of a test, of which those that need a server are slow."""
    return [
        pytest.param(one, id=one.name, marks=() if one is SQLITE else pytest.mark.slow)
        for one in implementations
    ]
