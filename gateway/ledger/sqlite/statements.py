"""Transactions, and statements that take many rows at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import orjson

from gateway.ledger.sql.database import Row, roll_back


@contextmanager
def transaction(
    connection: sqlite3.Connection, before_commit: Callable[[], None] | None = None
) -> Iterator[None]:
    """BEGIN IMMEDIATE, and COMMIT at the end or ROLLBACK on any exception.

    A transaction that began with a read would fail at once with SQLITE_BUSY_SNAPSHOT when
    another process wrote meanwhile; no time-out helps there.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        if before_commit is not None:
            before_commit()
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


@contextmanager
def transaction_aside(connection: sqlite3.Connection) -> Iterator[None]:
    """Write in a transaction that does not wait for the disk.

    Commits of money do wait (`synchronous = FULL`), and would take twice as long behind this one. The
    log stays in order: the next commit of money brings these rows to the disk, too.
    """
    # SQLite refuses this within a transaction.
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        with transaction(connection):
            yield
    finally:
        connection.execute("PRAGMA synchronous = FULL")


ROWS_AT_ONCE: Final = 512
"""Rows of a statement: SQLite takes 32,766 parameters."""


# Why many rows go into one statement: every step of a statement gives up the GIL and has to win it
# back from a busy event loop, which costs more than the step itself. Beside a loop that never slept,
# `executemany` of 64 requests took 500 ms, one statement with all rows in its VALUES 28 ms. The same
# applies to rows that are read, so they come back as one JSON array. The rows are padded to a power
# of two, so that a connection meets few different statements and keeps them prepared: with -1, as sqlite3
# looks twice for an adapter of each NULL, and each look raises an error.
@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """The SQL before and after the rows. A padding row has -1 everywhere and must have no effect.

    Compared by identity: its hash is computed for each use.
    """

    before: str
    after: str = ""


NO_PADDING: Final = "WHERE column1 <> -1"
"""Leaves out the padding: no row begins with a negative number."""


def run_rows(
    connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]
) -> sqlite3.Cursor:
    """Run the statement over rows of equal length, at least one."""
    columns = len(rows[0])
    count = 1 << (len(rows) - 1).bit_length()  # the next power of two
    padding = (-1,) * (columns * (count - len(rows)))
    return connection.execute(
        _compose(statement, columns, count), (*chain.from_iterable(rows), *padding)
    )


def run_all_rows(connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]) -> None:
    """Run the statement over any number of rows."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        run_rows(connection, statement, rows[start : start + ROWS_AT_ONCE])


def read_rows(
    connection: sqlite3.Connection, statement: Statement, ids: Collection[int | str]
) -> Any:
    """Return the rows for these ids, at least one; `statement` gives them as one JSON array."""
    (array,) = run_rows(connection, statement, [*zip(ids, strict=True)]).fetchone()
    return orjson.loads(array)


@lru_cache(maxsize=256)
def _compose(statement: Statement, columns: int, count: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"{statement.before} (VALUES {','.join([row] * count)}) {statement.after}"
