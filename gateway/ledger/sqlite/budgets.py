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
from gateway.ledger.key_records import Period, Spending, find_span
from gateway.ledger.sql.budgets import sum_charges
from gateway.ledger.sqlite.rows import Statement, read_json, run_rows

_READ: Final = Statement(
    "SELECT json_group_array(json_array(id, period, period_day, spent_nano))"
    " FROM budgets WHERE id IN"
)
_WRITE: Final = Statement(
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
