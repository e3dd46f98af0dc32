"""Write sums beside the books, in a transaction of their own."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, cast

from gateway.ledger.serving.sums import Observations
from gateway.ledger.sql.connection import Connection
from gateway.ledger.sql.observations import Insert, Row, write_observations
from gateway.ledger.sqlite.rows import Statement, run_rows
from gateway.ledger.sqlite.schema import transaction

ROWS_AT_ONCE: Final = 512
"""Rows of a statement: SQLite takes 32,766 parameters."""


def write_aside(connection: sqlite3.Connection, observed: Observations, now_ms: int) -> None:
    """Add the sums to what is stored, in one transaction that does not wait for the disk.

    A commit of money does (`synchronous = FULL`), and one that waited behind this would take twice
    as long. The log stays in order: the next such commit brings these rows to the disk, too.
    """
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        with transaction(connection):
            write_observations(connection, observed, now_ms, _insert_rows)
    finally:
        connection.execute("PRAGMA synchronous = FULL")


def _insert_rows(connection: Connection, insert: Insert, rows: Sequence[Row]) -> None:
    statement = Statement(f"{insert.into} SELECT * FROM", f"WHERE column1 NOT NULL {insert.then}")
    for start in range(0, len(rows), ROWS_AT_ONCE):
        run_rows(
            cast("sqlite3.Connection", connection), statement, rows[start : start + ROWS_AT_ONCE]
        )
