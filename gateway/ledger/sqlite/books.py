"""The operator's books in one SQLite file, and moves of a whole ledger out of it and into a new one."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from gateway.ledger.records import AuditReport, BadRecord, LedgerError, MoveRecord
from gateway.ledger.sql.books.books import Books
from gateway.ledger.sql.connection import Connection
from gateway.ledger.sqlite.audit import run_audit
from gateway.ledger.sqlite.backup import sync_folder, write_backup
from gateway.ledger.sqlite.files import FileWatch, check_absence, describe, explain, is_served
from gateway.ledger.sqlite.schema import (
    VERSION,
    connect,
    connect_empty,
    make_tables,
    read_version,
    set_busy_timeout,
    transaction,
)
from gateway.times import unix_ms

_LEFT_OUT: Final = ("changes", "checkpoints", "sessions", "signin_links", "replays")
"""Tables that concern the processes that use this database, and the browsers signed in by it."""
_TABLES: Final = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    " AND name NOT IN (SELECT value FROM json_each(?)) ORDER BY rowid"
)
_COLUMNS: Final = "SELECT name FROM pragma_table_info(?)"


def read_records(connection: sqlite3.Connection) -> Iterator[MoveRecord]:
    """Yield every row that moves. The caller's transaction makes it one state of the ledger."""
    for table in _list_tables(connection):
        cursor = connection.execute(f"SELECT * FROM {table} ORDER BY 1")  # noqa: S608 - its own name
        names = [column[0] for column in cursor.description]
        for row in cursor:
            yield MoveRecord(table, dict(zip(names, row, strict=True)))


def make_ledger(
    path: Path, version: int, records: Iterable[MoveRecord], now_ms: int
) -> AuditReport:
    """Make a new database of the records of a ledger of this version, if they add up.

    Raises:
        BadRecord: the version is unknown, or a record has no place in a ledger of it.
        LedgerError: the file cannot be made.
    """
    if version != VERSION:
        raise BadRecord(
            f"schema version {version} is not {VERSION}; export it with the gateway that imports it"
        )
    check_absence(path)
    # Made beside its name and audited there, so the name never has a ledger that does not add up.
    part = path.with_name(f".{path.name}.part")
    _remove(part)  # that of an import which was killed
    try:
        with closing(connect_empty(part)) as connection:
            with transaction(connection):
                make_tables(connection)
                _insert_all(connection, records)
            report = run_audit(connection, full=True, now_ms=now_ms)
        if report.ok:
            os.link(part, path)  # unlike a renaming it fails where a file has the name by now
            sync_folder(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise explain(path, error) from error
    finally:
        _remove(part)
    return report


def _insert_all(connection: sqlite3.Connection, records: Iterable[MoveRecord]) -> None:
    columns = {
        table: {name for (name,) in connection.execute(_COLUMNS, (table,))}
        for table in _list_tables(connection)
    }
    connection.execute("PRAGMA defer_foreign_keys = ON")  # a row may refer to a later one
    for record in records:
        # Names from the file become SQL below, so none passes that the schema does not have.
        unknown = record.row.keys() - columns.get(record.table, set())
        if unknown or not record.row:
            raise BadRecord(f"this version has no table '{record.table}' with such columns")
        try:
            connection.execute(_compose(record.table, tuple(record.row)), record.row)
        except (sqlite3.IntegrityError, OverflowError) as error:
            raise BadRecord(f"{record.table}: {error}") from error
    # The commit would refuse these rows, too, but not say which table they are in.
    for table, *_ in connection.execute("PRAGMA foreign_key_check"):
        raise BadRecord(f"{table}: a row refers to one that is missing")


@lru_cache(maxsize=256)
def _compose(table: str, columns: tuple[str, ...]) -> str:
    values = ", ".join(f":{name}" for name in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"  # noqa: S608 - checked


def _list_tables(connection: sqlite3.Connection) -> list[str]:
    left_out = "[" + ", ".join(f'"{name}"' for name in _LEFT_OUT) + "]"
    return [name for (name,) in connection.execute(_TABLES, (left_out,))]


def _remove(part: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            part.with_name(part.name + suffix).unlink()


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
        # Checked once more before the commit: what is written to lost files is lost.
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
