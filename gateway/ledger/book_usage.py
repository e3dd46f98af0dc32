"""What an account used and spent: all from the sums by hour and day, never from its requests.

Rows come as one JSON array, as in `rows`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, Final, Literal

import orjson

from gateway import apikeys
from gateway.ledger.book import Book
from gateway.ledger.reports import KEY_WORKS
from gateway.ledger.usage_records import (
    KeyLabel,
    OverviewView,
    Usage,
    UsageFilter,
    UsagePoint,
    UsageReport,
)
from gateway.times import DAY_MS, HOURS_PER_DAY

_LIST: Final = """
    SELECT json_group_array(json_array(
        {places}, requests, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens,
        cost_nano
    ))
    FROM (
        SELECT {places}, sum(requests) AS requests, sum(input_tokens) AS input_tokens,
            sum(cached_input_tokens) AS cached_input_tokens,
            sum(cache_write_tokens) AS cache_write_tokens, sum(output_tokens) AS output_tokens,
            sum(cost_nano) AS cost_nano
        FROM {table}
        WHERE account_id = :account AND {unit} >= :first AND {unit} <= :last
            AND (:key IS NULL OR key_id = :key) AND (:model IS NULL OR model = :model)
        GROUP BY {places} HAVING sum(requests) > 0
    )
"""
_POINTS: Final = {
    "day": _LIST.format(places="day, model", table="daily", unit="day"),
    "hour": _LIST.format(places="hour, model", table="hourly", unit="hour"),
}
_DAYS: Final = _LIST.format(places="day", table="daily", unit="day")
_KEYS: Final = _LIST.format(places="key_id", table="daily", unit="day")
_LABELS: Final = (
    "SELECT json_group_array(json_array(id, name, last4)) FROM keys"
    " WHERE id IN (SELECT value FROM json_each(:ids))"
)
_MODELS: Final = """
    SELECT json_group_array(model) FROM (
        SELECT DISTINCT model FROM daily
        WHERE account_id = :account AND day >= :first AND day <= :last
            AND (:key IS NULL OR key_id = :key) AND requests > 0
    )
"""
_STANDING: Final = f"""
    SELECT
        (
            SELECT count(*) FROM keys WHERE account_id = :account AND {KEY_WORKS}
        ),
        EXISTS (SELECT 1 FROM keys WHERE account_id = :account),
        EXISTS (SELECT 1 FROM daily WHERE account_id = :account AND requests > 0)
"""  # noqa: S608 - of constants
_EXPIRING: Final = """
    SELECT id, name, last4, expires_ms FROM keys
    WHERE account_id = :account AND revoked_ms IS NULL AND replaced_by IS NULL
        AND expires_ms > :now AND expires_ms <= :soon
    ORDER BY expires_ms, id
"""
_SPENT_BY_KEY: Final = """
    SELECT json_group_array(json_array(key_id, cost_nano)) FROM (
        SELECT key_id, sum(cost_nano) AS cost_nano FROM daily
        WHERE account_id = ? AND day >= ? AND day <= ? GROUP BY key_id
    )
"""

ChartUnit = Literal["day", "hour"]


class UsageBook(Book):
    def usage_report(
        self, chosen: UsageFilter, unit: ChartUnit, *, by_key: bool = False
    ) -> UsageReport:
        """`unit` is that of the points."""
        values = _select(chosen)
        width = HOURS_PER_DAY if unit == "hour" else 1
        spans = {"first": chosen.first_day * width, "last": (chosen.last_day + 1) * width - 1}
        with self.snapshot() as connection:
            rows = _read(connection, _POINTS[unit], {**values, **spans})
            keys = _read_keys(connection, values) if by_key else []
            models = _read(connection, _MODELS, values)
        points = [UsagePoint(at, model, Usage._make(sums)) for at, model, *sums in rows]
        return UsageReport(
            tuple(sorted(points)),
            tuple(sorted(keys, key=_by_cost)),
            tuple(sorted(models)),
        )

    def overview(self, account_id: int, *, first_day: int, soon_ms: int) -> OverviewView:
        """The days since `first_day`, and keys that expire within `soon_ms` from now."""
        now_ms = self.clock()
        values = {"account": account_id, "now": now_ms, "soon": now_ms + soon_ms}
        with self.snapshot() as connection:
            chosen = UsageFilter(account_id, first_day, now_ms // DAY_MS)
            days = _read(connection, _DAYS, _select(chosen))
            active_keys, has_key, has_call = connection.execute(_STANDING, values).fetchone()
            expiring = connection.execute(_EXPIRING, values).fetchall()
        return OverviewView(
            {day: Usage._make(sums) for day, *sums in days},
            active_keys,
            bool(has_key),
            bool(has_call),
            tuple((_label(*label), expires_ms) for *label, expires_ms in expiring),
        )

    def spent_by_key(self, account_id: int, from_day: int, to_day: int) -> dict[str, int]:
        """What each key of an account was charged, in nano-units; both days inclusive."""
        with self.reading() as connection:
            (pairs,) = connection.execute(_SPENT_BY_KEY, (account_id, from_day, to_day)).fetchone()
        return dict(orjson.loads(pairs))


def _select(chosen: UsageFilter) -> dict[str, Any]:
    return {
        "account": chosen.account_id,
        "first": chosen.first_day,
        "last": chosen.last_day,
        "key": chosen.key_id,
        "model": chosen.model,
    }


def _read(connection: sqlite3.Connection, sql: str, values: Mapping[str, Any]) -> list[Any]:
    (rows,) = connection.execute(sql, values).fetchone()
    found: list[Any] = orjson.loads(rows)
    return found


def _read_keys(
    connection: sqlite3.Connection, values: Mapping[str, Any]
) -> list[tuple[KeyLabel, Usage]]:
    sums = {key_id: Usage._make(rest) for key_id, *rest in _read(connection, _KEYS, values)}
    labels = _read(connection, _LABELS, {"ids": orjson.dumps(list(sums)).decode()})
    return [(_label(*row), sums[row[0]]) for row in labels]


def _label(key_id: str, name: str, last4: str) -> KeyLabel:
    return KeyLabel(key_id, name, apikeys.display(last4))


def _by_cost(row: tuple[KeyLabel, Usage]) -> tuple[int, str]:
    return -row[1].cost_nano, row[0].id
