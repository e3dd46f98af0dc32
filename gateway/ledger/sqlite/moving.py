"""Moves of a whole ledger: every row of one database as records, and a new database made of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from gateway.ledger.records import AuditReport, BadRecord, MoveRecord
from gateway.ledger.sqlite.audit import run_audit
from gateway.ledger.sqlite.backup import sync_folder
from gateway.ledger.sqlite.files import check_absence
from gateway.ledger.sqlite.reasons import explain
from gateway.ledger.sqlite.schema import (
    VERSION,
    connect_empty,
    list_columns,
    make_tables,
    transaction,
)

_LEFT_OUT: Final = ("changes", "checkpoints", "sessions", "signin_links", "replays")
"""Tables that concern the processes that use this database, and the browsers signed in by it."""
_TABLES: Final = (
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    " AND name NOT IN (SELECT value FROM json_each(?)) ORDER BY rowid"
)


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
    part = path.with_name(f".{path.name}.part")
    _remove(part)
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
        table: frozenset(list_columns(connection, table)) for table in _list_tables(connection)
    }
    connection.execute("PRAGMA defer_foreign_keys = ON")  # a row may refer to a later one
    for record in records:
        unknown = record.row.keys() - columns.get(record.table, frozenset())
        if unknown or not record.row:
            raise BadRecord(f"this version has no table '{record.table}' with such columns")
        try:
            connection.execute(_compose(record.table, tuple(record.row)), record.row)
        except (sqlite3.IntegrityError, OverflowError) as error:
            raise BadRecord(f"{record.table}: {error}") from error
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
