"""Sums of ended requests by hour and by day, written in the transaction that ends the requests.

A request belongs to the UTC hour and day in which it ended. A posted request counts with its
tokens and cost; a voided one only counts as failed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from operator import add
from typing import Final

from gateway.ledger.base import Hold, Settlement
from gateway.ledger.sqlite.rows import Row, Statement, run_rows
from gateway.times import DAY_MS, HOUR_MS, HOURS_PER_DAY

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
        _add(hourly, place, _count(settlement))
    return hourly


def _sum_by_day(hourly: Sums) -> Sums:
    daily: Sums = {}
    for (account_id, hour, model, key_id), sums in hourly.items():
        _add(daily, (account_id, hour // HOURS_PER_DAY, model, key_id), sums)
    return daily


def _make_rows(sums: Sums) -> list[Row]:
    return [(*place, *counts) for place, counts in sums.items()]


def _add(sums: Sums, place: Place, more: tuple[int, ...]) -> None:
    so_far = sums.get(place)
    sums[place] = more if so_far is None else tuple(map(add, so_far, more))


def _count(settlement: Settlement) -> tuple[int, ...]:
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
