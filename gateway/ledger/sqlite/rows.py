"""Statements with many rows.

Every step of a statement gives up the GIL and has to win it back from a busy event loop, which
costs more than the step itself: beside a loop that never slept, `executemany` of 64 requests took
500 ms, one statement with all rows in its VALUES 28 ms. The same applies to rows that are read, so
they come back as one JSON array. The rows are padded with NULLs to a power of two, so that a
connection meets few different statements and keeps them prepared.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import TypeVar

import orjson

Id = TypeVar("Id", int, str)
Row = tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """The SQL before and after the rows. A padding row is all NULL and must have no effect."""

    before: str
    after: str = ""


def run_rows(connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]) -> int:
    """Run the statement over rows of equal length; return the number of rows it changed."""
    if not rows:
        return 0
    return _execute(connection, statement, rows).rowcount


def read_numbers(
    connection: sqlite3.Connection, statement: Statement, ids: Collection[Id]
) -> dict[Id, int]:
    """Return the number of each id; `statement` gives a JSON array of [id, number] pairs."""
    return dict(orjson.loads(read_json(connection, statement, ids))) if ids else {}


def read_json(connection: sqlite3.Connection, statement: Statement, ids: Collection[Id]) -> str:
    """Return what `statement` gives for these ids, of which there must be some, as one JSON array."""
    (array,) = _execute(connection, statement, [(id_,) for id_ in ids]).fetchone()
    return str(array)


def _execute(
    connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]
) -> sqlite3.Cursor:
    columns = len(rows[0])
    count = 1 << (len(rows) - 1).bit_length()
    padding = (None,) * (columns * (count - len(rows)))
    return connection.execute(
        _compose(statement, columns, count), (*chain.from_iterable(rows), *padding)
    )


@lru_cache(maxsize=256)
def _compose(statement: Statement, columns: int, count: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"{statement.before} (VALUES {','.join([row] * count)}) {statement.after}"
