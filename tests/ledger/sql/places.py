"""Places for the tests' books: a file, or a database of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

from gateway.ledger.sql.database import Connection
from gateway.ledger.sqlite.books import SqliteBooks

if TYPE_CHECKING:
    from gateway.ledger.postgres.books import PostgresBooks

AnyBooks: TypeAlias = "SqliteBooks | PostgresBooks"
READ_ONLY_FILE: Final = "PRAGMA query_only = ON"
READ_ONLY_DATABASE: Final = "SET default_transaction_read_only = on"
ONLY_SQLITE: Final = pytest.mark.parametrize("place", ["sqlite"], indirect=True)
"""For a test of what SQLite alone has."""
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
        from gateway.ledger.postgres.books import PostgresBooks

        return PostgresBooks(self.location, create=create, clock=clock)

    def refuse_writes(self, connection: Connection) -> None:
        """Let it only read, as with a full disk, or a server that became a standby."""
        is_file = isinstance(self.location, Path)
        connection.execute(READ_ONLY_FILE if is_file else READ_ONLY_DATABASE)

    def empty(self) -> None:
        """Forget the rows of a database, and number from 1 again: to make a new one takes longer."""
        with closing(self.open(lambda: 0)) as books:
            (tables,) = books.connection.execute(_TABLES).fetchone()
            books.connection.execute(f"TRUNCATE {tables} RESTART IDENTITY")
