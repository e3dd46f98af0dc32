"""The sums of budgets, written in the transaction that posts the requests.

The sum belongs to the period at the time of the commit. It is added to while that period lasts.
When another one has begun, or the clock was set back to an earlier one, it is read anew from the
requests, so a late settlement or a wrong clock cannot leave it wrong.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import orjson

from gateway.ledger.base import Hold, Settlement
from gateway.ledger.budget_records import Spending
from gateway.ledger.periods import Period, Span, find_span
from gateway.ledger.sqlite.rows import Statement, read_json, run_rows
from gateway.times import DAY_MS

_READ: Final = Statement(
    "SELECT json_group_array(json_array(id, period, period_day, spent_nano))"
    " FROM budgets WHERE id IN"
)
_WRITE: Final = Statement(
    "UPDATE budgets SET spent_nano = new.column2, period_day = new.column3 FROM",
    "AS new WHERE budgets.id = new.column1",
)
SUM: Final = (
    "SELECT coalesce(sum(cost_nano), 0) FROM requests"
    " WHERE budget_id = ? AND ended_ms >= ? AND ended_ms < ?"
)
"""Voided requests are among them, at a cost of 0: so the index alone is read."""


WRONG_BUDGETS: Final = f"""
    SELECT id, spent_nano, charged
    FROM (
        SELECT id, spent_nano, coalesce((
            SELECT sum(cost_nano) FROM requests
            WHERE budget_id = budgets.id
                AND ended_ms >= period_day * {DAY_MS} AND ended_ms < end_period(period, period_day)
        ), 0) AS charged
        FROM budgets
    )
    WHERE spent_nano <> charged
"""  # noqa: S608 - of constants
"""For the audit: budgets whose sum is not that of their requests; `end_period` is ours."""
OTHERS_BUDGETS: Final = """
    SELECT requests.id, budget_id FROM requests JOIN budgets ON budgets.id = budget_id
    WHERE requests.account_id <> budgets.account_id
"""


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
    budgets: list[tuple[int, Period, int, int]] = orjson.loads(read_json(connection, _READ, ends))
    spendings = {}
    for budget_id, period, period_day, spent_nano in budgets:
        span = find_span(period, now_ms)
        if span.first_day == period_day:
            added = (one.cost_nano for one in ends[budget_id] if span.contains(one.ended_ms))
            spendings[budget_id] = Spending(span, spent_nano + sum(added))
        else:
            spendings[budget_id] = Spending(span, sum_charges(connection, budget_id, span))
    rows = [(id_, one.spent_nano, one.span.first_day) for id_, one in spendings.items()]
    run_rows(connection, _WRITE, rows)
    return spendings


def sum_charges(connection: sqlite3.Connection, budget_id: int, span: Span) -> int:
    """Return what a budget was charged for requests that ended in a period."""
    values = (budget_id, span.starts_ms, span.ends_ms)
    return int(connection.execute(SUM, values).fetchone()[0])


def end_period(period: Period, first_day: int) -> int:
    return find_span(period, first_day * DAY_MS).ends_ms
