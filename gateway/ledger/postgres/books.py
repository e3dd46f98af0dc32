"""The operator's books in PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import psycopg

from gateway.ledger.postgres.audit import run_audit
from gateway.ledger.postgres.moving import read_records
from gateway.ledger.postgres.nodes import list_nodes
from gateway.ledger.postgres.schema import SHAPE, open_session
from gateway.ledger.postgres.session import (
    BEGIN_SNAPSHOT,
    PATIENCE_MS,
    describe,
    transaction,
)
from gateway.ledger.records import AuditReport, LedgerError, MoveRecord, NodeView, Refused
from gateway.ledger.sql.books.books import Books
from gateway.ledger.sql.connection import Connection
from gateway.times import unix_ms

IN_FORCE_SECONDS: Final = 0.5
"""Nodes hear of a change at once, or look for it every quarter of a second."""


class PostgresBooks(Books):
    """Times are the database's, but for a test's clock."""

    # What a page reads is mostly in memory, so the order of an index comes cheaper than a sort.
    _BEGIN_SNAPSHOT = BEGIN_SNAPSHOT + "; SET LOCAL random_page_cost = 1"

    def __init__(
        self, url: str, *, create: bool = False, clock: Callable[[], int] = unix_ms
    ) -> None:
        self._url = url
        self._session = open_session(url, create=create)
        self._wait_ms = PATIENCE_MS
        super().__init__(self._session, self._session.clock if clock is unix_ms else clock)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Use the connection; one that broke is opened again."""
        if self._session.is_broken:
            self.connection = self._session = open_session(self._url)
        try:
            yield self._session
        except psycopg.Error as error:
            raise LedgerError(f"the ledger cannot be used: {describe(error)}") from error

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self._session, self._wait_ms)

    def wait_for_others(self, milliseconds: int) -> None:
        self._wait_ms = milliseconds

    def give_up_when(self, is_over: Callable[[], bool]) -> None:
        """Leave long statements to the server: the thread that waits for one holds nothing up."""

    def audit(self) -> AuditReport:
        with self.reading():
            return run_audit(self._session, full=True, now_ms=self.clock())

    def back_up(self, target: Path) -> int:
        del target
        raise Refused(
            "a ledger in PostgreSQL is backed up by PostgreSQL's own tools: pg_dump, or"
            " base backups with archived WAL"
        )

    def read_records(self) -> tuple[int, Iterator[MoveRecord]]:
        with self.reading():
            return SHAPE, read_records(self._session)

    def measure(self) -> tuple[int, int]:
        return self.read_number("SELECT pg_database_size(current_database())"), 0

    def list_nodes(self) -> list[NodeView]:
        with self.reading():
            return list_nodes(self._session)

    def wait_in_force(self) -> None:
        if self.read_number("SELECT count(*) FROM nodes WHERE ended_at IS NULL"):
            time.sleep(IN_FORCE_SECONDS)
