"""The SQL of what budgets were charged, and of the audit's proof of it."""

from __future__ import annotations

from typing import Final

from gateway.ledger.key_records import Period, Span, find_span
from gateway.ledger.sql.connection import Connection
from gateway.times import DAY_MS

SUM: Final = (
    "SELECT coalesce(sum(cost_nano), 0) FROM requests"
    " WHERE budget_id = ? AND ended_ms >= ? AND ended_ms < ?"
)
"""Voided requests are among them, at a cost of 0: so the index alone is read."""


WRONG_BUDGETS: Final = f"""
    SELECT id, spent_nano, charged
    FROM (
        SELECT id, spent_nano, period_day, coalesce((
            SELECT sum(cost_nano) FROM requests
            WHERE budget_id = budgets.id
                AND ended_ms >= period_day * {DAY_MS} AND ended_ms < end_period(period, period_day)
        ), 0) AS charged
        FROM budgets
    ) AS summed
    WHERE spent_nano <> charged AND period_day * {DAY_MS} >= :kept_from
"""  # noqa: S608 - of constants
"""For the audit: budgets whose sum is not that of their requests, of periods whose requests are
kept; `end_period` is ours."""
OTHERS_BUDGETS: Final = """
    SELECT requests.id, budget_id FROM requests JOIN budgets ON budgets.id = budget_id
    WHERE requests.account_id <> budgets.account_id
"""


def sum_charges(connection: Connection, budget_id: int, span: Span) -> int:
    """Return what a budget was charged for requests that ended in a period."""
    values = (budget_id, span.starts_ms, span.ends_ms)
    return int(connection.execute(SUM, values).fetchone()[0])


def end_period(period: Period, first_day: int) -> int:
    return find_span(period, first_day * DAY_MS).ends_ms
