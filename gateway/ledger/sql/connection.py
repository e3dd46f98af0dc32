"""The connection that statements run on: what the drivers of both databases have in common.

The statements of this folder are written in the SQL that both understand. Parameters are `?` or
`:name`. Rows may come as one JSON array, by `json_group_array(json_array(...))`; a list is passed as
JSON and read by `SELECT CAST(value AS BIGINT) FROM json_each(:ids)`. Truth is 0 or 1, and a subquery
in FROM has a name. `postgres.statements` tells what is written in other words for PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

import orjson

Value = str | bytes | int | None
"""The values that our columns hold: there are no floats in the ledger."""
Values = Sequence[Value] | Mapping[str, Value]
Rows = list[Any]
"""Rows as a driver gives them."""
Columns = list[list[Any]]
PART: Final = 10**9
"""Sums of amounts may be beyond 64 bits, at which SQLite's `sum` fails, so each is made of two: how often
the amounts have this many nano-units, and what they have beyond."""
MAX_ROWS: Final = 2**62
"""A LIMIT without effect."""


class Cursor(Protocol):
    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    @property
    def in_transaction(self) -> bool: ...

    def close(self) -> None: ...
    def execute(self, sql: str, values: Values = ..., /) -> Cursor: ...

    def executemany(self, sql: str, rows: Iterable[Values], /) -> object: ...


def read_rows(connection: Connection, sql: str, values: Values = ()) -> list[Any]:
    """Return the rows of a statement that gives them as one JSON array.

    SQLite gives up the GIL for every row, see `sqlite.totals.run_rows`.
    """
    (array,) = connection.execute(sql, values).fetchone()
    rows: list[Any] = orjson.loads(array) if array else []
    return rows


def read_columns(connection: Connection, sql: str, values: Values = ()) -> Columns:
    """Return the columns of a statement that gives them as one JSON array of arrays.

    Thousands of rows are written and read in half the time of an array for each row.
    """
    (array,) = connection.execute(sql, values).fetchone()
    return [column or [] for column in orjson.loads(array)]


def sum_parts(column: str) -> str:
    """Write the two sums of an amount."""
    return f"coalesce(sum(({column}) / {PART}), 0), coalesce(sum(({column}) % {PART}), 0)"


def join_parts(wholes: int, rests: int) -> int:
    return int(wholes) * PART + int(rests)


def insert(connection: Connection, table: str, row: Mapping[str, Value]) -> None:
    """Insert a row. Table and columns have the program's own names, never input."""
    connection.execute(_compose(table, row), row)


def insert_numbered(connection: Connection, table: str, row: Mapping[str, Value]) -> int:
    """Insert a row of a table that numbers its rows; return the number."""
    (number,) = connection.execute(_compose(table, row) + " RETURNING id", row).fetchone()
    return int(number)


def _compose(table: str, row: Mapping[str, Value]) -> str:
    columns, values = ", ".join(row), ", ".join(f":{name}" for name in row)
    return f"INSERT INTO {table} ({columns}) VALUES ({values})"  # noqa: S608
