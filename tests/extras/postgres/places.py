"""Places in PostgreSQL for the tests of the ledger and of its books."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import pytest

from gateway.ledger.serving.queue import Item
from gateway.ledger.sql.database import Connection
from tests.extras.postgres.cluster import Cluster
from tests.extras.postgres.databases import Databases
from tests.ledger.contract.implementations import Implementation, Needs, Storage
from tests.ledger.sql.places import BooksPlace, Kind

if TYPE_CHECKING:  # the driver may not be installed
    from gateway.extras.postgres.books import PostgresBooks
    from gateway.extras.postgres.session import Session

_TABLES: Final = """
    SELECT string_agg(relname, ', ') FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        AND relname NOT IN ('schema_version', 'retention')
"""


@dataclass(frozen=True, slots=True)
class DatabasePlace(BooksPlace):
    url: str

    def open(self, clock: Callable[[], int], *, create: bool = False) -> PostgresBooks:
        from gateway.extras.postgres.books import PostgresBooks

        return PostgresBooks(self.url, create=create, clock=clock)

    def refuse_writes(self, connection: Connection) -> None:
        connection.execute("SET default_transaction_read_only = on")

    def add_requests(self, connection: Connection, items: Sequence[Item], now_ms: int) -> None:
        from tests.extras.postgres.rounds import write_requests

        write_requests(cast("Session", connection), items, now_ms)

    def begin_spoiling(self, connection: Connection) -> None:
        connection.execute("BEGIN")
        for table in ("entries", "requests", "codes", "orders"):
            connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")

    def empty(self) -> None:
        """Forget the rows of a database, and number from 1 again: to make a new one takes longer."""
        with closing(self.open(lambda: 0)) as books:
            (tables,) = books.connection.execute(_TABLES).fetchone()
            books.connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")


def _take(request: pytest.FixtureRequest, _: Path) -> DatabasePlace:
    place = DatabasePlace(request.getfixturevalue("books_url"))
    place.empty()
    return place


@contextmanager
def _lend(request: pytest.FixtureRequest, _: Path) -> Iterator[DatabasePlace]:
    cluster: Cluster = request.getfixturevalue("postgres")
    url = cluster.make_database()
    yield DatabasePlace(url)
    cluster.drop_database(url)


BOOKS: Final = Kind(_take, _lend)


def _open_storage(location: str) -> Storage:
    from tests.extras.postgres.storage import PostgresStorage

    return PostgresStorage(location)


@contextmanager
def _lend_ledger(request: pytest.FixtureRequest, _: Path) -> Iterator[str]:
    """Skips the test where there is no server."""
    databases: Databases = request.getfixturevalue("databases")
    with databases.lend() as url:
        yield url


LEDGER: Final = Implementation("postgres", _open_storage, _lend_ledger, frozenset({Needs.NODES}))
