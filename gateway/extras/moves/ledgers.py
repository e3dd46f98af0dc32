"""Reads the rows of a whole ledger, and makes a new ledger of such rows.

Ledgers in a file are read and made here. The extra of another database adds a `Mover`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, cast

from gateway.base.progress import Progress, follow, ignore
from gateway.base.times import unix_ms
from gateway.extension import find_added, find_ledger_tables, find_missing
from gateway.ledger.opening import require_databases
from gateway.ledger.records import AuditReport, DatabaseUrl, LedgerError, Location, Refused
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Part, count_rows, write_insert
from gateway.ledger.sqlite import folds, schema
from gateway.ledger.sqlite.backup import make_part, remove_remains, sync_folder
from gateway.ledger.sqlite.books import SqliteBooks, run_audit
from gateway.ledger.sqlite.faults import explain
from gateway.ledger.sqlite.files import check_absence
from gateway.ledger.sqlite.statements import transaction
from gateway.ledger.versions import VERSION

_LEFT_OUT: Final = (
    *("changes", "checkpoints", "extra_tables"),
    *("folded", "daily_totals", "entries_by_account", *folds.FILES),
)
"""Tables that do not move: they concern the processes of this database, or are derived from other tables."""
CHARGE_COLUMN: Final = "charge_id"
"""A column that does not move: it follows from the entries, and PostgreSQL does not have it."""
_TABLES: Final = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    " AND name NOT IN (SELECT value FROM json_each(?)) ORDER BY rowid"
)
_COLUMNS: Final = "SELECT name FROM pragma_table_info(?)"


class BadRecord(Refused):
    """A record cannot be read back into a ledger."""


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """One row on its way to another ledger; `row` has the columns by name."""

    table: str
    row: Mapping[str, str | int | bytes | None]


class Mover(Protocol):
    """Reads and makes ledgers in databases at addresses; see the functions of the same names below."""

    def read_records(
        self, books: Books, progress: Progress, /
    ) -> tuple[int, Iterator[MoveRecord]]: ...

    def make_ledger(
        self,
        url: DatabaseUrl,
        version: int,
        records: Iterable[MoveRecord],
        now_ms: int,
        progress: Progress,
        /,
    ) -> AuditReport: ...


def read_records(books: Books, progress: Progress = ignore) -> tuple[int, Iterator[MoveRecord]]:
    """Return the schema's version and all rows that move; read them within a `snapshot`."""
    if isinstance(books, SqliteBooks):
        return FileRows(books).read(progress)
    return _find_mover().read_records(books, progress)


def make_ledger(
    location: Location,
    version: int,
    records: Iterable[MoveRecord],
    *,
    clock: Callable[[], int] = unix_ms,
    progress: Progress = ignore,
) -> AuditReport:
    """Make a new ledger from another's records of this schema version, if they add up.

    Raises:
        BadRecord: the version is unknown, or a record does not fit into its schema.
        LedgerError: the ledger cannot be made.
    """
    records = _leave_out(records)
    if isinstance(location, Path):
        return _make_file(location, version, records, clock(), progress)
    require_databases()
    return _find_mover().make_ledger(location, version, records, clock(), progress)


def _find_mover() -> Mover:
    (mover,) = find_added("moves")
    return cast("Mover", mover)


def _leave_out(records: Iterable[MoveRecord]) -> Iterator[MoveRecord]:
    """Leave out rows of extras' tables that do not move: a gateway without the extra exports them, too."""
    known = find_ledger_tables().values()
    here = {name for one in known for name in one.names}
    stay = {name for one in known for name in one.unmoved}
    gone: dict[str, str | None] = {}
    for record in records:
        table = record.table
        if table not in here and gone.setdefault(table, find_missing("ledger", table)):
            raise BadRecord(f"its table '{table}' {gone[table]}")
        if table not in stay:
            yield record


class FileRows(Part):
    """Reads the rows that move from a ledger in a file."""

    def __init__(self, books: SqliteBooks) -> None:
        super().__init__(books)
        self._connection = books.connection

    def read(self, progress: Progress) -> tuple[int, Iterator[MoveRecord]]:
        """Return the schema's version and the rows. The caller's transaction makes them one state."""
        with self._database.reading():
            folds.see_all_charges(self._connection)
            records = self._read_all()
            if progress is not ignore:
                total = count_rows(self._connection, _list_tables(self._connection))
                records = follow(records, progress, "writing the ledger", total, "rows")
            return schema.read_version(self._connection), records

    def _read_all(self) -> Iterator[MoveRecord]:
        for table in _list_tables(self._connection):
            names = _list_columns(self._connection, table)
            rows = self._connection.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY 1")  # noqa: S608 - its own names
            for row in rows:
                yield MoveRecord(table, dict(zip(names, row, strict=True)))


def _make_file(
    path: Path, version: int, records: Iterable[MoveRecord], now_ms: int, progress: Progress
) -> AuditReport:
    if version != VERSION:
        raise BadRecord(
            f"schema version {version} is not {VERSION}; export it with the gateway that imports it"
        )
    check_absence(path)
    try:
        with _lending_part(path) as part:
            with closing(schema.connect_empty(part)) as connection:
                with transaction(connection):
                    schema.make_tables(connection)
                    _insert_all(connection, records, progress)
                report = run_audit(connection, full=True, now_ms=now_ms, progress=progress)
                _empty_log(connection, path)
            if report.ok:
                os.link(part, path)  # unlike renaming, it fails if a file got this name meanwhile
                sync_folder(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise explain(path, error) from error
    return report


@contextmanager
def _lending_part(path: Path) -> Iterator[Path]:
    """Make a file beside the ledger's name, and remove it at the end.

    The ledger is made and audited there, so its name never belongs to one that does not add up. No other
    import writes to this file, even an import to the same name.
    """
    descriptor, part = make_part(path)
    try:
        remove_remains(path.parent)
        yield part
    finally:
        _remove(part)
        os.close(descriptor)


def _empty_log(connection: sqlite3.Connection, path: Path) -> None:
    """Write the log into the file, which is linked without it. Raises LedgerError, sqlite3.Error."""
    # Closing the connection does so, too, but on a full disk it silently keeps the log.
    (is_busy, *_) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if is_busy:
        raise LedgerError(
            f"{path}: another program reads it while it is being made; end that program"
        )


def _insert_all(
    connection: sqlite3.Connection, records: Iterable[MoveRecord], progress: Progress
) -> None:
    columns = {table: {*_list_columns(connection, table)} for table in _list_tables(connection)}
    connection.execute("PRAGMA defer_foreign_keys = ON")  # a row may refer to a later one
    with folds.naming_charges(connection):
        _insert_records(connection, columns, records)
    progress("adding up the sums")
    folds.file_all(connection, "requests")
    connection.execute(folds.FILE_ENTRIES)
    connection.execute(folds.SUM_UP_DAYS)
    connection.execute(folds.NOTE_FOLDED)
    # The commit would refuse these rows, too, but would not name their table.
    for table, *_ in connection.execute("PRAGMA foreign_key_check"):
        raise BadRecord(f"{table}: a row refers to one that is missing")


def _insert_records(
    connection: sqlite3.Connection, columns: Mapping[str, set[str]], records: Iterable[MoveRecord]
) -> None:
    for record in records:
        # Names from the file become SQL below, so only those of the schema are accepted.
        unknown = record.row.keys() - columns.get(record.table, set())
        if unknown or not record.row:
            raise BadRecord(f"this version has no table '{record.table}' with such columns")
        try:
            connection.execute(write_insert(record.table, *record.row), record.row)
        except (sqlite3.IntegrityError, OverflowError) as error:
            raise BadRecord(f"{record.table}: {error}") from error


def _list_columns(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns that move, in their order."""
    names = (name for (name,) in connection.execute(_COLUMNS, (table,)))
    return [name for name in names if name != CHARGE_COLUMN]


def _list_tables(connection: sqlite3.Connection) -> list[str]:
    stay = [name for one in find_ledger_tables().values() for name in one.unmoved]
    left_out = json.dumps([*_LEFT_OUT, *stay])
    return [name for (name,) in connection.execute(_TABLES, (left_out,))]


def _remove(part: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            part.with_name(part.name + suffix).unlink()
