"""A ledger in PostgreSQL, and how it is broken. Imported by the tests that run for it: psycopg is an extra."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Final

import psycopg

from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.postgres.schema import open_session
from gateway.extras.postgres.serving import open_postgres
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sql.books import Books
from tests.extras.postgres.cluster import name_of
from tests.extras.postgres.databases import CUT_OFF, stop_clock

Clock = Callable[[], int]

SILENCE_SECONDS: Final = 1.0
"""In place of the five seconds after which a node is dead: longer than a busy machine's pauses."""


class PostgresStorage:
    """Its location is a URL. What it does to the database, the role that owns it may do."""

    def __init__(self, location: str) -> None:
        self._url = location

    @asynccontextmanager
    async def serve(self, *, clock: Clock, commit_seconds: float) -> AsyncIterator[ServingLedger]:
        """Serve, with the database's time that of the clock, whenever a round asks for it."""
        with closing(open_session(self._url, create=True)) as session:
            told_ms = -1

            def tell() -> int:
                nonlocal told_ms
                if (now_ms := clock()) != told_ms:
                    stop_clock(session, now_ms)
                    told_ms = now_ms
                return now_ms

            tell()
            async with open_postgres(
                self._url,
                clock=tell,
                commit_seconds=commit_seconds,
                silence_seconds=SILENCE_SECONDS,
            ) as ledger:
                yield ledger

    def open_books(self, *, clock: Clock) -> Books:
        return PostgresBooks(self._url, create=True, clock=clock)

    @contextmanager
    def fail_commits(self) -> Iterator[None]:
        """Let the server vanish, and a standby that is read-only answer in its place."""
        self._become("default_transaction_read_only = on")
        try:
            yield
        finally:
            self._become("default_transaction_read_only = off")

    def refuse_rows(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("ALTER TABLE requests ADD CHECK (hold_nano < 0) NOT VALID")

    def spoil(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("UPDATE accounts SET balance_nano = balance_nano + 1")

    def _become(self, setting: str) -> None:
        """Set it for new connections, and end the others."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER DATABASE {name_of(self._url)} SET {setting}".encode())
            connection.execute(CUT_OFF)
