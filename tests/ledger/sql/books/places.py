"""Where the tests' books are: in a file, or in a database of a PostgreSQL server.

`GATEWAY_TEST_POSTGRES` is a superuser's URL of a server that has a role `gateway`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import psycopg
import pytest

from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.sqlite.books import SqliteBooks

AnyBooks = SqliteBooks | PostgresBooks
SERVER: Final = "GATEWAY_TEST_POSTGRES"
READ_ONLY_FILE: Final = "PRAGMA query_only = ON"
READ_ONLY_DATABASE: Final = "SET default_transaction_read_only = on"
ONLY_SQLITE: Final = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
"""For a test of what SQLite alone has."""
WITH_REQUESTS: Final = pytest.mark.parametrize(
    "place",
    [
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.skip("the requests are made by SQLite's batch")),
    ],
    indirect=True,
)
_TABLES: Final = """
    SELECT string_agg(relname, ', ') FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
        AND relname NOT IN ('schema_version', 'retention')
"""


@dataclass(frozen=True, slots=True)
class BooksPlace:
    """A file or a database, and the books that can be opened there."""

    location: Path | str

    def open(self, clock: Callable[[], int], *, create: bool = False) -> AnyBooks:
        if isinstance(self.location, Path):
            return SqliteBooks(self.location, create=create, clock=clock)
        return PostgresBooks(self.location, create=create, clock=clock)

    def refuse_writes(self, books: AnyBooks) -> None:
        """Let the books only read, as with a full disk, or a server that became a standby."""
        is_file = isinstance(self.location, Path)
        books.connection.execute(READ_ONLY_FILE if is_file else READ_ONLY_DATABASE)


@contextmanager
def open_database() -> Iterator[str]:
    """Make a database of the role `gateway`, and give its URL. Skips if there is no server."""
    if SERVER not in os.environ:
        pytest.skip(f"{SERVER} names no PostgreSQL server")
    parts = urlsplit(os.environ[SERVER])
    name = f"{parts.path.lstrip('/')}_{os.getpid()}"
    with psycopg.connect(os.environ[SERVER], autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} OWNER gateway".encode())
        try:
            url = f"postgresql://gateway@{parts.hostname}:{parts.port or 5432}/{name}"
            PostgresBooks(url, create=True).close()
            yield url
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def empty(url: str) -> None:
    """Forget all rows, and number them from 1 again: a new database costs a checkpoint."""
    with psycopg.connect(url, autocommit=True) as connection:
        (tables,) = connection.execute(_TABLES).fetchone() or ("",)
        connection.execute(f"TRUNCATE {tables} RESTART IDENTITY".encode())
