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

from gateway.ledger.key_records import KeyTerms

Id = TypeVar("Id", int, str)
Row = tuple[int | str | None, ...]
TermsColumns = tuple[str, str | None, int | None, int | None, int | None, int | None, int | None]
"""The fields of `KeyTerms`, in their order, with the models as a JSON array."""


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
    if not ids:
        return {}
    (pairs,) = _execute(connection, statement, [(id_,) for id_ in ids]).fetchone()
    return dict(orjson.loads(pairs))


def read_terms(columns: TermsColumns) -> KeyTerms:
    """Return a key's terms from its columns."""
    name, models, *numbers = columns
    return KeyTerms(name, None if models is None else tuple(orjson.loads(models)), *numbers)


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
