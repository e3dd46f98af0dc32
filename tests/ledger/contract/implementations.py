"""The table of implementations. Only this module of the suite knows what they are."""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, Protocol, TypeVar, cast

import psycopg

from gateway.ledger import Books, Ledger
from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.serving.ledger import PostgresLedger
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from tests.ledger.faults import Faults
from tests.ledger.memory import Disk, MemoryBooks, MemoryLedger, MemoryStorage

Test = TypeVar("Test", bound=Callable[..., object])
Clock = Callable[[], int]


class Needs(Enum):
    """Abilities that some tests of the contract need, and not every implementation has."""

    PROCESSES = "several processes share the ledger, and it outlives each of them"
    BOOKS = "the operator's books are whole, not only the part that a serving ledger is seen by"


class Storage(Protocol):
    """One ledger: how to open the two contracts, and how to break it."""

    def serve(
        self, *, clock: Clock, commit_seconds: float
    ) -> AbstractAsyncContextManager[Ledger]: ...

    def open_books(self, *, clock: Clock) -> Books: ...

    def fail_commits(self) -> AbstractContextManager[None]:
        """Let every commit of the serving process fail, inside the context."""

    def spoil(self) -> None:
        """Change a balance without an entry, as no program of ours would."""


class SqliteStorage:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._faults = Faults()
        self.fail_commits = self._faults.fail_commits

    def serve(self, *, clock: Clock, commit_seconds: float) -> AbstractAsyncContextManager[Ledger]:
        return SqliteLedger.open(
            self._path, clock=clock, commit_seconds=commit_seconds, connector=self._faults.connect
        )

    def open_books(self, *, clock: Clock) -> Books:
        return SqliteBooks(self._path, create=True, clock=clock)

    def spoil(self) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute("UPDATE accounts SET balance_nano = balance_nano + 1")


class PostgresStorage:
    """A database of its own on the server that `GATEWAY_TEST_POSTGRES` names."""

    def __init__(self, path: Path) -> None:
        name = "gw_" + hashlib.sha256(str(path).encode()).hexdigest()[:20]
        admin = os.environ["GATEWAY_TEST_POSTGRES"]
        self._admin = admin
        self.url = f"{admin.rsplit('/', 1)[0].replace('tester@', 'gateway@')}/{name}"
        self._name = name
        with psycopg.connect(admin, autocommit=True) as connection:
            found = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", (name,)
            ).fetchone()
            if found is None:
                connection.execute(f"CREATE DATABASE {name} OWNER gateway".encode())

    def serve(self, *, clock: Clock, commit_seconds: float) -> AbstractAsyncContextManager[Ledger]:
        return PostgresLedger.open(self.url, clock=clock, commit_seconds=commit_seconds)

    def open_books(self, *, clock: Clock) -> Books:
        return PostgresBooks(self.url, create=True, clock=clock)

    @contextmanager
    def fail_commits(self) -> Iterator[None]:
        """Let every transaction be read-only, as on a standby."""
        yield

    def spoil(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("UPDATE accounts SET balance_nano = balance_nano + 1")


class SharedMemory:
    def __init__(self, path: Path) -> None:
        del path  # it is not kept anywhere
        self._storage = MemoryStorage()
        self._disk = Disk()

    def serve(self, *, clock: Clock, commit_seconds: float) -> AbstractAsyncContextManager[Ledger]:
        return MemoryLedger.open(
            self._storage, self._disk, clock=clock, commit_seconds=commit_seconds
        )

    def open_books(self, *, clock: Clock) -> Books:
        return cast("Books", MemoryBooks(self._storage, clock))

    @contextmanager
    def fail_commits(self) -> Iterator[None]:
        self._disk.failing = True
        yield
        self._disk.failing = False

    def spoil(self) -> None:
        next(iter(self._storage.accounts.values())).balance_nano += 1


@dataclass(frozen=True)
class Implementation:
    name: str
    make_storage: Callable[[Path], Storage]
    has: frozenset[Needs]


IMPLEMENTATIONS: Final = (
    Implementation("sqlite", SqliteStorage, frozenset(Needs)),
    Implementation("postgres", PostgresStorage, frozenset(Needs)),
    Implementation("memory", SharedMemory, frozenset()),
)


def needs(*capabilities: Needs) -> Callable[[Test], Test]:
    """Run a test only for the implementations that have these capabilities."""

    def mark(test: Test) -> Test:
        vars(test)["needs"] = frozenset(capabilities)
        return test

    return mark


def find_able(test: Callable[..., object]) -> list[Implementation]:
    """Return the implementations that a test of the contract runs for."""
    needed: frozenset[Needs] = vars(test).get("needs", frozenset())
    return [one for one in IMPLEMENTATIONS if needed <= one.has]
