"""Sums that are written with the requests: voids by hour and day, and what budgets are charged.

A request belongs to the UTC hour and day in which it ended. A voided one only counts as failed.
Those that are posted are added by `folds`.

A budget's sum belongs to the period at the time of the commit. It is added to while that period
lasts. When another one has begun, or the clock was set back to an earlier one, it is read anew from
the requests, so a late settlement or a wrong clock cannot leave it wrong.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Final, TypeVar

import orjson

from gateway.base.times import DAY_MS, HOUR_MS
from gateway.ledger.base import Hold, Settlement
from gateway.ledger.key_records import Period, Spending, find_span
from gateway.ledger.sql.rows import DAY_SUMS, SUMS, TOTALS, sum_charges

Id = TypeVar("Id", int, str)
Row = tuple[int | str | None, ...]


# Why many rows go into one statement: every step of a statement gives up the GIL and has to win it
# back from a busy event loop, which costs more than the step itself. Beside a loop that never slept,
# `executemany` of 64 requests took 500 ms, one statement with all rows in its VALUES 28 ms. The same
# applies to rows that are read, so they come back as one JSON array. The rows are padded with NULLs to
# a power of two, so that a connection meets few different statements and keeps them prepared.
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


def run_all_rows(connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]) -> None:
    """Run the statement over any number of rows."""
    for start in range(0, len(rows), ROWS_AT_ONCE):
        run_rows(connection, statement, rows[start : start + ROWS_AT_ONCE])


def read_numbers(
    connection: sqlite3.Connection, statement: Statement, ids: Collection[Id]
) -> dict[Id, int]:
    """Return the number of each id; `statement` gives a JSON array of [id, number] pairs."""
    return dict(orjson.loads(read_json(connection, statement, ids))) if ids else {}


def read_json(connection: sqlite3.Connection, statement: Statement, ids: Collection[Id]) -> str:
    """Return the rows of `statement` for these ids (at least one) as one JSON array."""
    (array,) = _execute(connection, statement, [(id_,) for id_ in ids]).fetchone()
    return str(array)


def _execute(
    connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]
) -> sqlite3.Cursor:
    columns = len(rows[0])
    count = 1 << (len(rows) - 1).bit_length()  # the next power of two
    padding = (None,) * (columns * (count - len(rows)))
    return connection.execute(
        _compose(statement, columns, count), (*chain.from_iterable(rows), *padding)
    )


ROWS_AT_ONCE: Final = 512
"""Rows of a statement: SQLite takes 32,766 parameters."""


@lru_cache(maxsize=256)
def _compose(statement: Statement, columns: int, count: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"{statement.before} (VALUES {','.join([row] * count)}) {statement.after}"


OF_HOUR: Final = ("account_id", "hour", "model", "key_id")
OF_DAY: Final = ("account_id", "day", "model", "key_id", "provider")
OF_ALL: Final = ("day", "model", "provider")
"""The columns by which there are sums in `hourly`, `daily` and `daily_totals`."""
_TABLES: Final = (
    ("hourly", OF_HOUR, SUMS),
    ("daily", OF_DAY, DAY_SUMS),
    ("daily_totals", OF_ALL, TOTALS),
)
"""Their columns of places and of sums, in this order."""


def sum_up(place: Sequence[str], sums: Sequence[str], source: str, ended: str = "ended_ms") -> str:
    """Write the sums by place over requests that ended at some time."""
    return f"""
        SELECT {", ".join((*place, *sums))} FROM (
            SELECT *, {ended} / {HOUR_MS} AS hour, {ended} / {DAY_MS} AS day FROM {source}
        ) GROUP BY {", ".join(place)}
    """  # noqa: S608 - of constants


def write_additions(
    sums: Sequence[Sequence[str]], source: str, ended: str = "ended_ms"
) -> tuple[str, ...]:
    """Write the statements that add such sums to what each of the tables has."""
    return tuple(
        f"INSERT INTO {table} {sum_up(place, columns, source, ended)}"
        f" ON CONFLICT ({', '.join(place)}) DO UPDATE SET "
        + ", ".join(f"{name} = {name} + excluded.{name}" for name in names)
        for (table, place, names), columns in zip(_TABLES, sums, strict=True)
    )


_FAILED: Final = [("0", "count(*)", *("0" for _ in names[2:])) for *_, names in _TABLES]
OF_IDS: Final = "requests WHERE id IN (SELECT value FROM json_each(:ids))"
_COUNT_VOIDS: Final = write_additions(_FAILED, OF_IDS)
_FAIL_PENDING: Final = write_additions(
    _FAILED, "requests WHERE state = 'pending'", "max(started_ms, :now)"
)


def count_voids(connection: sqlite3.Connection, request_ids: Collection[str]) -> None:
    """Count these requests as failed, inside the transaction that has voided them."""
    for sql in _COUNT_VOIDS if request_ids else ():
        connection.execute(sql, {"ids": orjson.dumps(request_ids).decode()})


def fail_pending(connection: sqlite3.Connection, now_ms: int) -> None:
    """Count all pending requests as failed, inside the transaction that will void them."""
    for sql in _FAIL_PENDING:
        connection.execute(sql, {"now": now_ms})


_READ_BUDGETS: Final = Statement(
    "SELECT json_group_array(json_array(id, period, period_day, spent_nano))"
    " FROM budgets WHERE id IN"
)
_WRITE_BUDGETS: Final = Statement(
    "UPDATE budgets SET spent_nano = new.column2, period_day = new.column3 FROM",
    "AS new WHERE budgets.id = new.column1",
)


def charge_budgets(
    connection: sqlite3.Connection, charges: Iterable[tuple[Hold, Settlement]], now_ms: int
) -> dict[int, Spending]:
    """Add charges whose requests are written to their budgets; return what these have spent."""
    ends: dict[int, list[Settlement]] = defaultdict(list)
    for hold, settlement in charges:
        if hold.budget is not None:
            ends[hold.budget.id].append(settlement)
    if not ends:
        return {}
    budgets: list[tuple[int, Period, int, int]] = orjson.loads(
        read_json(connection, _READ_BUDGETS, ends)
    )
    spendings = {}
    for budget_id, period, period_day, spent_nano in budgets:
        span = find_span(period, now_ms)
        if span.first_day == period_day:
            # A request that ended in the period before has no part in this sum.
            added = (one.cost_nano for one in ends[budget_id] if span.contains(one.ended_ms))
            spendings[budget_id] = Spending(span, spent_nano + sum(added))
        else:
            # The requests tell, those of this batch among them: they are written already.
            spendings[budget_id] = Spending(span, sum_charges(connection, budget_id, span))
    rows = [(id_, one.spent_nano, one.span.first_day) for id_, one in spendings.items()]
    run_rows(connection, _WRITE_BUDGETS, rows)
    return spendings
