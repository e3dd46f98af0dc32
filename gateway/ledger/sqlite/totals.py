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
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import add
from typing import Final, TypeVar

import orjson

from gateway.ledger.base import Hold, Settlement
from gateway.ledger.call_records import ProviderCosts
from gateway.ledger.key_records import Period, Spending, find_span
from gateway.ledger.sql.database import PART
from gateway.ledger.sql.rows import DAY_SUMS, SUMS, TOTALS, is_amount, sum_charges
from gateway.times import HOUR_MS, HOURS_PER_DAY

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
    """Return what `statement` gives for these ids, of which there must be some, as one JSON array."""
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

Place = tuple[int | str, ...]
"""The values of these columns."""
Sums = dict[Place, tuple[int, ...]]


def _make_upsert(table: str, place: Sequence[str], names: Sequence[str]) -> Statement:
    # The WHERE leaves padding rows out; without one, ON would be a join.
    adds = ", ".join(f"{name} = {name} + excluded.{name}" for name in names)
    return Statement(
        f"INSERT INTO {table} SELECT * FROM",
        f"WHERE column1 NOT NULL ON CONFLICT ({', '.join(place)}) DO UPDATE SET {adds}",
    )


_ADD_HOURLY: Final = _make_upsert("hourly", OF_HOUR, SUMS)
_ADD_DAILY: Final = _make_upsert("daily", OF_DAY, DAY_SUMS)
_ADD_TOTALS: Final = _make_upsert("daily_totals", OF_ALL, TOTALS)

_FAIL: Final = """
    INSERT INTO {table}
    SELECT {place}, 0, count(*), {zeros}
    FROM (
        SELECT *, max(started_ms, :now) / 3600000 AS hour, max(started_ms, :now) / 86400000 AS day
        FROM requests WHERE state = 'pending'
    ) GROUP BY {place}
    ON CONFLICT ({place}) DO UPDATE SET failed = failed + excluded.failed
"""


def _fail(table: str, place: Sequence[str], zeros: int) -> str:
    return _FAIL.format(table=table, place=", ".join(place), zeros=", ".join(["0"] * zeros))


_NO_COSTS: Final = ProviderCosts()
_FAILED: Final = (0, 1, 0, 0, 0, 0, 0)
"""The sums of one request that failed, in the order of `SUMS`."""
_FAIL_PENDING: Final = (
    _fail("hourly", OF_HOUR, len(_FAILED) - 2),
    _fail("daily", OF_DAY, len(_FAILED) - 2 + len(_NO_COSTS)),
    _fail("daily_totals", OF_ALL, len(TOTALS) - 2),
)
"""Pending requests fail at `:now`, or when they began if the clock was set back."""


def count_voids(connection: sqlite3.Connection, ended: Iterable[tuple[Hold, Settlement]]) -> None:
    """Count the voided ones of settled requests, inside the transaction that settles them."""
    hourly, daily = Sums(), Sums()
    for hold, settlement in ended:
        if settlement.is_posted:
            continue
        account_id, model, key_id = hold.account.id, hold.admission.model, hold.key.id
        hour = settlement.ended_ms // HOUR_MS
        add_to(hourly, (account_id, hour, model, key_id), _FAILED)
        of_day = (account_id, hour // HOURS_PER_DAY, model, key_id, settlement.provider)
        add_to(daily, of_day, (*_FAILED, *_NO_COSTS))
    write_sums(connection, hourly, daily)


def fail_pending(connection: sqlite3.Connection, now_ms: int) -> None:
    """Count all pending requests as failed, inside the transaction that will void them."""
    for sql in _FAIL_PENDING:
        connection.execute(sql, {"now": now_ms})


def write_sums(connection: sqlite3.Connection, hourly: Sums, daily: Sums) -> None:
    """Add to the sums by hour, by day, and by day of all accounts."""
    totals = Sums()
    for (_, day, model, _, provider), counts in daily.items():
        add_to(totals, (day, model, provider), tuple(_split(counts)))
    for upsert, sums in ((_ADD_HOURLY, hourly), (_ADD_DAILY, daily), (_ADD_TOTALS, totals)):
        run_all_rows(connection, upsert, [(*place, *counts) for place, counts in sums.items()])


def _split(counts: Iterable[int]) -> Iterator[int]:
    """Yield sums in the order of `DAY_SUMS` in that of `TOTALS`."""
    for name, count in zip(DAY_SUMS, counts, strict=True):
        yield from divmod(count, PART) if is_amount(name) else (count,)


def add_to(sums: Sums, place: Place, more: tuple[int, ...]) -> None:
    so_far = sums.get(place)
    sums[place] = more if so_far is None else tuple(map(add, so_far, more))


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
