"""Moves of a whole ledger into PostgreSQL and out of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby, islice
from typing import Final, cast

import psycopg

from gateway.ledger.errors import LedgerError
from gateway.ledger.locations import DatabaseUrl
from gateway.ledger.postgres.audit import CHECKS
from gateway.ledger.postgres.schema import SHAPE, open_session
from gateway.ledger.postgres.session import Session, describe, explain
from gateway.ledger.records import AuditReport, BadRecord, MoveRecord
from gateway.ledger.sql.audit import prove, read_last_entry, write_checkpoint
from gateway.times import DAY_MS

TABLES: Final = (
    "accounts",
    "budgets",
    "keys",
    "requests",
    "entries",
    "daily",
    "hourly",
    "daily_costs",
    "passwords",
    "codes",
    "events",
    "tokens",
    "refusals",
    "upstream_calls",
    "upstream_failures",
    "alert_hooks",
    "alert_conditions",
    "alerts",
)
"""The tables that move, each behind those that it refers to."""
OF_NODES: Final = frozenset({"held_nano", "in_flight", "node_id", "expected_tokens"})
"""Columns that only several nodes need."""
_COLUMNS: Final = (
    "SELECT column_name FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND table_name = ? ORDER BY ordinal_position"
)
_NUMBERED: Final = ("accounts", "budgets", "entries", "events", "upstream_failures")
_KEEP_NUMBER: Final = (
    "SELECT setval(pg_get_serial_sequence('{0}', 'id'), max(id)) FROM {0} HAVING max(id) > 0"
)
_HELD: Final = (
    "UPDATE {0} SET held_nano = pending.held_nano {2} FROM (SELECT {1}, sum(hold_nano) AS"
    " held_nano, count(*) AS requests FROM requests WHERE state = 'pending' GROUP BY 1) AS pending"
    " WHERE {0}.id = pending.{1}"
)
_HOLDERS: Final = (
    ("accounts", "account_id", ", in_flight = pending.requests"),
    ("keys", "key_id", ", in_flight = pending.requests"),
    ("budgets", "budget_id", ""),
)
ROWS_AT_ONCE: Final = 500


def read_records(session: Session) -> Iterator[MoveRecord]:
    """Yield every row that moves. The caller's transaction makes it one state of the ledger."""
    for table in TABLES:
        names = _list_columns(session, table)
        with session.driver.cursor(f"of_{table}") as cursor:  # on the server: rows may be millions
            cursor.execute(f"SELECT {', '.join(names)} FROM {table} ORDER BY 1".encode())
            for row in cursor:
                yield MoveRecord(table, dict(zip(names, row, strict=True)))


def make_ledger(url: str, version: int, records: Iterable[MoveRecord], now_ms: int) -> AuditReport:
    """Make a ledger of the records of another, in a database without accounts, if they add up.

    Raises:
        BadRecord: the version is another one, or a record has no place in a ledger.
        LedgerError: the database cannot be used, or has a ledger already.
    """
    if version != SHAPE:
        raise BadRecord(
            f"schema version {version} is not {SHAPE}; export it with the gateway that imports it"
        )
    with closing(open_session(url, create=True)) as session:
        try:
            session.run("BEGIN; SET CONSTRAINTS ALL DEFERRED")  # a row may refer to a later one
            if session.execute("SELECT EXISTS (SELECT 1 FROM accounts)").fetchone() == (True,):
                raise LedgerError(
                    f"{DatabaseUrl(url)}: an import needs a database without accounts; make"
                    " another with createdb, and name it in [storage] url"
                )
            _insert_all(session, records)
            report = prove(session, 0, full=True, more_checks=CHECKS)
            if report.ok:
                write_checkpoint(session, read_last_entry(session), now_ms)
            session.run("COMMIT" if report.ok else "ROLLBACK")
        except psycopg.IntegrityError as error:
            raise BadRecord(describe(error)) from error
        except psycopg.Error as error:
            raise explain(url, error) from error
    return report


def _insert_all(session: Session, records: Iterable[MoveRecord]) -> None:
    columns = {table: frozenset(_list_columns(session, table)) for table in TABLES}
    for table, run in groupby(records, key=lambda record: record.table):
        rows = iter(run)
        while chunk := list(islice(rows, ROWS_AT_ONCE)):
            for record in chunk:
                if record.row.keys() - columns.get(table, frozenset()) or not record.row:
                    raise BadRecord(f"this version has no table '{table}' with such columns")
            _make_months(session, table, chunk)
            _copy(session, table, chunk)
    for table in _NUMBERED:
        session.execute(_KEEP_NUMBER.format(table))
    for table, column, more in _HOLDERS:
        session.execute(_HELD.format(table, column, more))


def _make_months(session: Session, table: str, chunk: Sequence[MoveRecord]) -> None:
    """Make the partitions before a row of their month is in the one for all others."""
    column = {"requests": "started_ms", "entries": "created_ms"}.get(table)
    if column is not None:
        times = {int(cast("int", record.row[column])) // DAY_MS * DAY_MS for record in chunk}
        for at_ms in sorted(times):
            session.execute("SELECT make_months(to_timestamp(? / 1000), 0)", (at_ms,))


def _copy(session: Session, table: str, chunk: Sequence[MoveRecord]) -> None:
    for names, rows in groupby(chunk, key=lambda record: tuple(record.row)):
        statement = f"COPY {table} ({', '.join(names)}) FROM STDIN".encode()
        with session.driver.cursor() as cursor, cursor.copy(statement) as copy:
            for record in rows:
                copy.write_row(tuple(record.row.values()))


def _list_columns(session: Session, table: str) -> list[str]:
    """Return the columns that move, in their order."""
    rows = session.execute(_COLUMNS, (table,)).fetchall()
    return [name for (name,) in rows if name not in OF_NODES]
