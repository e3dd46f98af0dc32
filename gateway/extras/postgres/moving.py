"""Move a whole ledger into a database or out of it, for the extra `moves`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby, islice
from typing import Final

import psycopg

from gateway.base.progress import Progress, follow, ignore
from gateway.extras.moves.ledgers import BadRecord, MoveRecord
from gateway.extras.postgres import schema
from gateway.extras.postgres.session import BOOKS_LOCK, Session, describe, explain
from gateway.extras.postgres.urls import show_url
from gateway.ledger.budget_records import find_span
from gateway.ledger.records import AuditReport, LedgerError
from gateway.ledger.sql.audit import read_last_entry, write_checkpoint
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import count_rows

_TABLES: Final = """
    retention accounts budgets keys prices requests entries daily hourly passwords totp recovery_codes
    codes orders order_reversals order_fees events tokens refusals refused model_prices upstream_calls
    latencies upstream_failures alert_hooks alert_conditions alerts
"""
TABLES: Final = tuple(_TABLES.split())
"""The tables that move, each after the tables that it refers to.

`retention` has a row only if months of requests were dropped. It is the first, so that a ledger that
needs all requests refuses it before it reads them.
"""
OF_NODES: Final = frozenset({"held_nano", "unheld_nano", "in_flight", "node_id", "expected_tokens"})
"""Columns used only with several nodes."""
_COLUMNS: Final = (
    "SELECT column_name FROM information_schema.columns"
    " WHERE table_schema = current_schema() AND table_name = ? ORDER BY ordinal_position"
)
_ROWS: Final = {"retention": "retention WHERE kept_from_ms > 0"}
_HAS_ROWS: Final = "SELECT EXISTS (SELECT 1 FROM {0})"
_DOUBLED: Final = {
    "the id": "SELECT id FROM entries GROUP BY id HAVING count(*) > 1 LIMIT 1",
    "an account's idempotency key": """
        SELECT idempotency_key FROM entries WHERE idempotency_key IS NOT NULL
        GROUP BY account_id, idempotency_key HAVING count(*) > 1 LIMIT 1
    """,
}
"""Duplicates that no index of a partitioned table can prevent."""
ROWS_AT_ONCE: Final = 500
"""Rows of one COPY, so that millions need not be in memory together."""
LATEST_MS: Final = 253_402_300_800_000
"""The end of the year 9999: rows of times beyond it share the partition of all others."""


def _read_all(session: Session) -> Iterator[MoveRecord]:
    """Yield every row that moves. The caller's transaction makes it one state of the ledger."""
    for table in TABLES:
        names = _list_columns(session, table)
        with session.driver.cursor(f"of_{table}") as cursor:  # on the server: rows may be millions
            cursor.itersize = ROWS_AT_ONCE
            rows = _ROWS.get(table, table)
            sql = f"SELECT {', '.join(names)} FROM {rows} ORDER BY 1"  # noqa: S608 - its own names
            cursor.execute(sql.encode())
            for row in cursor:
                yield MoveRecord(table, dict(zip(names, row, strict=True)))


def read_records(books: Books, progress: Progress) -> tuple[int, Iterator[MoveRecord]]:
    """Return the schema's version and all rows that move; read them within a `snapshot`."""
    with books.reading() as session:
        assert isinstance(session, Session)
        records = _read_all(session)
        if progress is not ignore:
            total = count_rows(session, [_ROWS.get(table, table) for table in TABLES])
            records = follow(records, progress, "writing the ledger", total, "rows")
        return schema.SHAPE, records


def make_ledger(
    url: str, version: int, records: Iterable[MoveRecord], now_ms: int, progress: Progress
) -> AuditReport:
    """Make a ledger from another ledger's records, in a database that has none, if the records add up.

    Raises:
        BadRecord: the version is another one, or a record has no place in a ledger.
        LedgerError: the database cannot be used, or has a ledger already.
    """
    if version != schema.SHAPE:
        raise BadRecord(
            f"schema version {version} is not {schema.SHAPE}; export it with the gateway that imports it"
        )
    with closing(schema.open_session(url, create=True)) as session:
        try:
            # Alone, as every change of the books is. A row may refer to a later one.
            session.run(f"BEGIN; SELECT pg_advisory_xact_lock{BOOKS_LOCK}")
            session.run("SET CONSTRAINTS ALL DEFERRED")
            _require_none(session, url)
            _insert_all(session, records)
            progress("adding up the sums")
            session.run("ANALYZE")  # the planner needs statistics for the proof of many rows
            report = schema.prove_books(session, 0, full=True, progress=progress)
            if report.ok:
                write_checkpoint(session, read_last_entry(session), now_ms)
            session.run("COMMIT" if report.ok else "ROLLBACK")
        # Before the more general class: here the file is to blame, not the database.
        except (psycopg.IntegrityError, psycopg.DataError) as error:
            raise BadRecord(describe(error)) from error
        except psycopg.Error as error:
            raise explain(url, error) from error
    return report


def _require_none(session: Session, url: str) -> None:
    """Raise LedgerError if somebody serves from the database, or it has any row that moves."""
    if schema.is_served(session):
        raise LedgerError(f"{show_url(url)}: a gateway serves from it; stop it before an import")
    for table in TABLES:
        if session.execute(_HAS_ROWS.format(_ROWS.get(table, table))).fetchone() == (True,):
            raise LedgerError(
                f"{show_url(url)}: it has a ledger already; an import needs a new database"
            )


def _insert_all(session: Session, records: Iterable[MoveRecord]) -> None:
    columns = {table: frozenset(_list_columns(session, table)) for table in TABLES}
    months = set[int]()
    session.run("DELETE FROM retention")  # the records may bring a row of it
    for table, run in groupby(records, key=lambda record: record.table):
        rows = iter(run)
        while chunk := list(islice(rows, ROWS_AT_ONCE)):
            for record in chunk:
                if record.row.keys() - columns.get(table, frozenset()) or not record.row:
                    raise BadRecord(f"this version has no table '{table}' with such columns")
            _make_months(session, table, chunk, months)
            _copy(session, table, chunk)
    session.run("INSERT INTO retention SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM retention)")
    # Checked here, while an error can be told as one of the records.
    session.run("SET CONSTRAINTS ALL IMMEDIATE")
    for what, sql in _DOUBLED.items():
        for (value,) in session.execute(sql):
            raise BadRecord(f"entries: two have {what} '{value}'")
    schema.run_script(session, "imported.sql")


def _make_months(
    session: Session, table: str, chunk: Sequence[MoveRecord], months: set[int]
) -> None:
    """Make each partition once, before a row of its month is in the one for all others."""
    column = {"requests": "started_ms", "entries": "created_ms"}.get(table)
    if column is None:
        return
    for record in chunk:
        at_ms = record.row.get(column)
        if isinstance(at_ms, int) and 0 <= at_ms < LATEST_MS:
            first_ms = find_span("month", at_ms).starts_ms
            if first_ms not in months:
                months.add(first_ms)
                session.execute("SELECT make_months(to_timestamp(? / 1000), 0)", (first_ms,))


def _copy(session: Session, table: str, chunk: Sequence[MoveRecord]) -> None:
    for names, rows in groupby(chunk, key=lambda record: tuple(record.row)):
        statement = f"COPY {table} ({', '.join(names)}) FROM STDIN".encode()
        try:
            with session.driver.cursor() as cursor, cursor.copy(statement) as copy:
                for record in rows:
                    copy.write_row(tuple(record.row.values()))
        except (psycopg.IntegrityError, psycopg.DataError) as error:
            raise BadRecord(
                f"{table}: {describe(error)} (at this line, or up to {len(chunk)} before it)"
            ) from error


def _list_columns(session: Session, table: str) -> list[str]:
    """Return the columns that move, in their order."""
    rows = session.execute(_COLUMNS, (table,)).fetchall()
    return [name for (name,) in rows if name not in OF_NODES]
