"""Sums that are written with the requests: by hour, by day, of budgets, of what providers bill.

A request belongs to the UTC hour and day in which it ended. A posted request counts with its
tokens and cost; a voided one only counts as failed. In the sums of costs only requests have a part
whose cost is known, or was reported.

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
from operator import add
from typing import Final, TypeVar

import orjson

from gateway.ledger.base import Hold, Settlement
from gateway.ledger.call_records import ProviderCosts
from gateway.ledger.key_records import Period, Spending, find_span
from gateway.ledger.sql.rows import sum_charges
from gateway.times import DAY_MS, HOUR_MS, HOURS_PER_DAY

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


@lru_cache(maxsize=256)
def _compose(statement: Statement, columns: int, count: int) -> str:
    row = "(" + ",".join("?" * columns) + ")"
    return f"{statement.before} (VALUES {','.join([row] * count)}) {statement.after}"


_SUMS: Final = (
    "requests",
    "failed",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "cost_nano",
)
_ADD: Final = ", ".join(f"{name} = {name} + excluded.{name}" for name in _SUMS)
_FAILED: Final = (0, 1, 0, 0, 0, 0, 0)
"""The sums of one request that failed, in the order of `_SUMS`."""

Place = tuple[int, int, str, str]
"""The key of a sum: account, hour or day, model, key."""
Sums = dict[Place, tuple[int, ...]]


def _make_upsert(table: str, unit: str) -> Statement:
    """Return an upsert that leaves padding rows out; without a WHERE, ON would be a join."""
    return Statement(
        f"INSERT INTO {table} SELECT * FROM",
        f"WHERE column1 NOT NULL ON CONFLICT (account_id, {unit}, model, key_id)"
        f" DO UPDATE SET {_ADD}",
    )


_ADD_HOURLY: Final = _make_upsert("hourly", "hour")
_ADD_DAILY: Final = _make_upsert("daily", "day")

_FAIL: Final = """
    INSERT INTO {table}
    SELECT account_id, max(started_ms, :now) / {unit_ms}, model, key_id, 0, count(*), 0, 0, 0, 0, 0
    FROM requests WHERE state = 'pending' GROUP BY 1, 2, 3, 4
    ON CONFLICT (account_id, {unit}, model, key_id) DO UPDATE SET failed = failed + excluded.failed
"""
_FAIL_PENDING: Final = (
    _FAIL.format(table="hourly", unit="hour", unit_ms=HOUR_MS),
    _FAIL.format(table="daily", unit="day", unit_ms=DAY_MS),
)
"""Pending requests fail at `:now`, or when they began if the clock was set back."""


def add_totals(connection: sqlite3.Connection, ended: Iterable[tuple[Hold, Settlement]]) -> None:
    """Add settled requests, inside the transaction that settles them."""
    # Summed up here, since an upsert for each request would take the batch's time once more.
    hourly = _sum_by_hour(ended)
    run_rows(connection, _ADD_HOURLY, _make_rows(hourly))
    run_rows(connection, _ADD_DAILY, _make_rows(_sum_by_day(hourly)))


def fail_pending(connection: sqlite3.Connection, now_ms: int) -> None:
    """Count all pending requests as failed, inside the transaction that will void them."""
    for sql in _FAIL_PENDING:
        connection.execute(sql, {"now": now_ms})


def _sum_by_hour(ended: Iterable[tuple[Hold, Settlement]]) -> Sums:
    hourly: Sums = {}
    for hold, settlement in ended:
        hour = settlement.ended_ms // HOUR_MS
        place = (hold.account.id, hour, hold.admission.model, hold.key.id)
        _add_to(hourly, place, _count_request(settlement))
    return hourly


def _sum_by_day(hourly: Sums) -> Sums:
    daily: Sums = {}
    for (account_id, hour, model, key_id), sums in hourly.items():
        _add_to(daily, (account_id, hour // HOURS_PER_DAY, model, key_id), sums)
    return daily


def _make_rows(sums: Sums) -> list[Row]:
    return [(*place, *counts) for place, counts in sums.items()]


def _add_to(sums: Sums, place: Place, more: tuple[int, ...]) -> None:
    so_far = sums.get(place)
    sums[place] = more if so_far is None else tuple(map(add, so_far, more))


def _count_request(settlement: Settlement) -> tuple[int, ...]:
    """Return the sums of one request in the order of `_SUMS`."""
    if not settlement.is_posted:
        return _FAILED
    tokens = settlement.tokens
    return (
        1,
        0,
        tokens.input,
        tokens.cached_input,
        tokens.cache_write + tokens.cache_write_1h,
        tokens.output,
        settlement.cost_nano,
    )


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


_ADD_COSTS: Final = Statement(
    "INSERT INTO daily_costs SELECT * FROM",
    "WHERE column1 NOT NULL ON CONFLICT (account_id, day, model, key_id) DO UPDATE SET "
    + ", ".join(f"{name} = {name} + excluded.{name}" for name in ProviderCosts._fields),
)


def add_costs(connection: sqlite3.Connection, charges: Iterable[tuple[Hold, Settlement]]) -> None:
    """Add charged requests, inside the transaction that settles them."""
    sums: dict[tuple[int, int, str, str], ProviderCosts] = {}
    for hold, settlement in charges:
        if settlement.provider_cost_nano is None and settlement.reported_cost_nano is None:
            continue  # a gateway without configured costs keeps the table empty
        day = settlement.ended_ms // DAY_MS
        place = (hold.account.id, day, hold.admission.model, hold.key.id)
        one = count_costs(settlement)
        sums[place] = ProviderCosts(*map(add, sums[place], one)) if place in sums else one
    run_rows(connection, _ADD_COSTS, [(*place, *costs) for place, costs in sums.items()])


def count_costs(settlement: Settlement) -> ProviderCosts:
    """Return the sums of one charged request."""
    cost_nano, reported_nano = settlement.provider_cost_nano, settlement.reported_cost_nano
    is_known, is_reported = cost_nano is not None, reported_nano is not None
    compared = is_known and is_reported
    cost_nano, reported_nano = cost_nano or 0, reported_nano or 0
    return ProviderCosts(
        known=int(is_known),
        charged_nano=settlement.cost_nano if is_known else 0,
        cost_nano=cost_nano,
        reported=int(is_reported),
        reported_nano=reported_nano,
        compared=int(compared),
        difference_nano=reported_nano - cost_nano if compared else 0,
    )
