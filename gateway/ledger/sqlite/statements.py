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


# sqlite3 looks twice for an adapter of each NULL, and each look raises an error unless there is one. A charge
# has four NULLs, of 0.6 µs each, or of 0.2 with an adapter.
sqlite3.register_adapter(type(None), dict[None, None]().get)

ROWS_AT_ONCE: Final = 512
"""Rows of a statement: SQLite takes 32,766 parameters."""


# Why many rows go into one statement: every step of a statement gives up the GIL and has to win it
# back from a busy event loop, which costs more than the step itself. Beside a loop that never slept,
# `executemany` of 64 requests took 500 ms, one statement with all rows in its VALUES 28 ms. The same
# applies to rows that are read, so they come back as one JSON array. The rows are padded to a power
# of two, so that a connection meets few different statements and keeps them prepared.
@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """The SQL before and after many rows. A padding row has -1 everywhere and must have no effect.

    Compared by identity: its hash is computed for each use.
    """

    before: str
    after: str
    one: str
    """The SQL for a single row, which needs no table of rows: a charge takes a quarter less of the processor."""
    id_last: bool = False
    """`one` takes the row's first value, its id, as the last: Python 3.12.0 to 3.12.3 warn of numbered parameters."""


def write_insert(into: str, columns: int, after: str = "") -> Statement:
    """Write the insertion of rows that do not begin with a negative number; `after` is an upsert clause."""
    one = f"{into} VALUES ({','.join('?' * columns)}) {after}"
    return Statement(f"{into} SELECT * FROM", f"WHERE column1 <> -1 {after}", one)


def write_update(table: str, *columns: str, more: str = "") -> Statement:
    """Write the update of the rows whose ids are the first values; `more` is another condition."""
    many = ", ".join(f"{name} = new.column{number}" for number, name in enumerate(columns, 2))
    one = ", ".join(f"{name} = ?" for name in columns)
    return Statement(
        f"UPDATE {table} SET {many} FROM",  # noqa: S608 - of constants, here and below
        f"AS new WHERE {table}.id = new.column1 {more}",
        f"UPDATE {table} SET {one} WHERE id = ? {more}",  # noqa: S608
        id_last=True,
    )


def run_rows(
    connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]
) -> sqlite3.Cursor:
    """Run the statement over rows of equal length, at least one."""
    if len(rows) == 1:
        row = (*rows[0][1:], rows[0][0]) if statement.id_last else rows[0]
        return connection.execute(statement.one, row)
    columns = len(rows[0])
    count = _round_up(len(rows))
    padding = (-1,) * (columns * (count - len(rows)))
    return connection.execute(
        _compose(statement, columns, count), (*chain.from_iterable(rows), *padding)
    )


def run_all_rows(connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]) -> None:
    """Run the statement over any number of rows."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        run_rows(connection, statement, rows[start : start + ROWS_AT_ONCE])


def read_rows(connection: sqlite3.Connection, sql: str, ids: Collection[int | str]) -> Any:
    """Return the rows of these ids, at least one; the statement ends with `IN` and makes one JSON array."""
    count = _round_up(len(ids))
    values = (*ids, *(-1,) * (count - len(ids)))
    (array,) = connection.execute(f"{sql} ({','.join('?' * count)})", values).fetchone()
    return orjson.loads(array)


def _round_up(count: int) -> int:
    """Return the next power of two."""
    return 1 << (count - 1).bit_length()


@lru_cache(maxsize=256)
def _compose(statement: Statement, columns: int, count: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"{statement.before} (VALUES {','.join([row] * count)}) {statement.after}"
