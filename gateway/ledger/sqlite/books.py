"""The operator's books in one SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final

from gateway.ledger.records import AuditReport, LedgerError, MoveRecord
from gateway.ledger.sql.books.books import Books
from gateway.ledger.sql.connection import Connection
from gateway.ledger.sqlite.audit import run_audit
from gateway.ledger.sqlite.backup import write_backup
from gateway.ledger.sqlite.files import FileWatch, is_served
from gateway.ledger.sqlite.moving import read_records
from gateway.ledger.sqlite.reasons import describe
from gateway.ledger.sqlite.schema import connect, read_version, set_busy_timeout, transaction
from gateway.times import unix_ms

IN_FORCE_SECONDS: Final = 0.5
"""A serving process looks for commits of others every quarter of a second, and takes a batch's time."""
_STEPS_BETWEEN_LOOKS: Final = 1_000_000
"""Steps of SQLite's virtual machine, some 10 ms. Each look takes the GIL from the event loop."""


class SqliteBooks(Books):
    """Each use raises FilesLost if the database's files lost their names: it would be in vain."""

    _BEGIN_SNAPSHOT = "BEGIN"
    connection: sqlite3.Connection

    def __init__(
        self, path: Path, *, create: bool = False, clock: Callable[[], int] = unix_ms
    ) -> None:
        super().__init__(connect(path, create=create), clock)
        self._path = path
        self._files = FileWatch(path)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Check the files before and on an error, which may be due to their loss."""
        self._files.check()
        try:
            yield self.connection
        except sqlite3.Error as error:
            self._files.check()
            raise LedgerError(f"the ledger cannot be used: {describe(error)}") from error

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self.connection, self._files.check)

    def wait_for_others(self, milliseconds: int) -> None:
        with self.reading():
            set_busy_timeout(self.connection, milliseconds)

    def give_up_when(self, is_over: Callable[[], bool]) -> None:
        self.connection.set_progress_handler(is_over, _STEPS_BETWEEN_LOOKS)

    def audit(self) -> AuditReport:
        with self.reading():
            return run_audit(self.connection, full=True, now_ms=self.clock())

    def back_up(self, target: Path) -> int:
        with self.reading():
            size = write_backup(self.connection, target)
        with suppress(LedgerError):  # a ledger that cannot be written needs a backup most
            self.note("ledger.backup", account=None, target=target.name)
        return size

    def read_records(self) -> tuple[int, Iterator[MoveRecord]]:
        with self.reading():
            return read_version(self.connection), read_records(self.connection)

    def measure(self) -> tuple[int, int]:
        return _measure(self._path), _measure(self._path.with_name(self._path.name + "-wal"))

    def wait_in_force(self) -> None:
        if is_served(self._path):
            time.sleep(IN_FORCE_SECONDS)


def _measure(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
