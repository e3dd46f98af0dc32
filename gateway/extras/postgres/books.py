"""The operator's books in PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final

import psycopg

from gateway.base.progress import Progress, ignore
from gateway.base.times import unix_ms
from gateway.extras.postgres import schema
from gateway.extras.postgres.nodes import list_nodes
from gateway.extras.postgres.session import BEGIN_SNAPSHOT, PATIENCE_MS, describe, transaction
from gateway.ledger.records import AuditReport, LedgerError, NodeView, Refused
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Connection

IN_FORCE_SECONDS: Final = 0.5
"""Seconds after which a change is in force everywhere: nodes hear of it at once, or look for it every quarter
of a second."""


class PostgresBooks(Books):
    """The books in PostgreSQL. Times are the database's, unless a test has a clock of its own."""

    # What a page reads is mostly in memory, so the order of an index comes cheaper than a sort.
    _BEGIN_SNAPSHOT = BEGIN_SNAPSHOT + "; SET LOCAL random_page_cost = 1"

    def __init__(
        self,
        url: str,
        *,
        create: bool = False,
        clock: Callable[[], int] = unix_ms,
        progress: Progress = ignore,
    ) -> None:
        self._url = url
        self._session = schema.open_session(url, create=create, progress=progress)
        self._wait_ms = PATIENCE_MS
        self._is_reading = False
        super().__init__(self._session, self._session.clock if clock is unix_ms else clock)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Use the connection; the outermost use opens one that broke again."""
        # The console keeps its books for days, in which servers and pools are restarted. But within a
        # change a new connection would commit the rest of it alone.
        was_reading, self._is_reading = self._is_reading, True
        try:
            if self._session.is_broken and not was_reading:
                self.connection = self._session = schema.open_session(self._url)
            yield self._session
        except psycopg.Error as error:
            raise LedgerError(f"the ledger cannot be used: {describe(error)}") from error
        finally:
            self._is_reading = was_reading

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self._session, self._wait_ms)

    def wait_for_others(self, milliseconds: int) -> None:
        self._wait_ms = milliseconds

    def give_up_when(self, is_over: Callable[[], bool]) -> None:
        """Leave long statements to the server: the thread that waits for one holds nothing up."""

    def audit(self, progress: Progress = ignore) -> AuditReport:
        with self.reading():
            return schema.run_audit(
                self._session, full=True, now_ms=self.clock(), progress=progress
            )

    def back_up(self, target: Path, progress: Progress = ignore) -> int:
        del target, progress
        raise Refused(
            "a ledger in PostgreSQL is backed up by PostgreSQL's own tools: pg_dump, or"
            " base backups with archived WAL"
        )

    def measure(self) -> tuple[int, int]:
        return self.read_number("SELECT pg_database_size(current_database())"), 0

    def list_nodes(self) -> list[NodeView]:
        with self.reading():
            return list_nodes(self._session)

    def wait_in_force(self) -> None:
        if self.read_number("SELECT count(*) FROM nodes WHERE ended_at IS NULL"):
            time.sleep(IN_FORCE_SECONDS)
