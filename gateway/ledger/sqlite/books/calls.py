"""Calls of an account, the latest first.

Request ids begin with the time of the request, so the index by account and id has them in order,
and a day is a range of ids. Calls of one key or one model may be few among many. The sums by hour
tell in which hours they ended; calls that ended in another hour than they began in have an index
of their own, and so have pending ones. Only those hours are searched. Rows come as one JSON array
(see `rows`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final, Literal

from gateway import apikeys
from gateway.ledger.base import Outcome
from gateway.ledger.records import CallFilter, CallView
from gateway.ledger.sqlite.books.database import Database, Value, read_rows
from gateway.money import Tokens
from gateway.request_ids import find_first_id
from gateway.times import DAY_MS, HOUR_MS, HOURS_PER_DAY

LAST_DAY: Final = 3_000_000
"""Later than the year 9999, the last that can be asked for."""

_CALL: Final = """
    SELECT requests.id AS id, started_ms, ended_ms, model, provider, key_id, keys.name AS key_name,
        last4, state, outcome, status, stream, input_tokens, cached_input_tokens,
        cache_write_tokens + cache_write_1h_tokens AS cache_write_tokens, output_tokens, cost_nano, estimated, first_byte_ms
    FROM requests CROSS JOIN keys ON keys.id = key_id
"""
_AS_JSON: Final = """
    SELECT json_group_array(json_array(
        id, started_ms, ended_ms, model, provider, key_id, key_name, last4, state, outcome, status,
        stream, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, cost_nano,
        estimated, first_byte_ms
    ))
"""
_Columns = tuple[
    str, int, int | None, str, str, str, str, str,
    Literal["pending", "posted", "voided"], Outcome, int | None,
    int, int, int, int, int, int, int, int | None,
]  # fmt: skip
_CHOSEN: Final = "AND key_id = coalesce(:key, key_id) AND model = coalesce(:model, model)"

LATEST: Final = f"""
    {_AS_JSON} FROM (
        {_CALL} WHERE requests.account_id = :account AND requests.id >= :low AND requests.id < :high
            {_CHOSEN}
        ORDER BY requests.id DESC LIMIT :limit
    )
"""
ONE: Final = f"""
    {_AS_JSON} FROM (
        {_CALL} WHERE requests.id = :id AND requests.account_id = :account
            AND started_ms >= :since AND started_ms < :until {_CHOSEN}
    )
"""

_OVER_HOURS: Final = f"""
    FROM requests
    WHERE account_id = :account AND ended_ms / {HOUR_MS} <> started_ms / {HOUR_MS}
        {_CHOSEN}
"""
_PENDING: Final = f"""
    FROM requests
    WHERE account_id = :account AND state = 'pending'
        AND started_ms >= :since AND started_ms < :until {_CHOSEN}
"""
_PLACES: Final = """
    SELECT json_group_array(place) FROM (
        SELECT place FROM (
            SELECT DISTINCT {unit} AS place FROM {table}
            WHERE account_id = :account AND {unit} >= :first AND {unit} <= :last {chosen}
        )
        UNION ALL SELECT started_ms / :ms {over_hours}
            AND started_ms >= :since AND started_ms < :until
        UNION ALL SELECT started_ms / :ms {pending}
    )
"""
_COUNT: Final = """
    SELECT (
        SELECT coalesce(sum(requests + failed), 0) FROM daily
        WHERE account_id = :account AND day >= :first AND day <= :last {chosen}
    ) + (
        SELECT count(*) {pending}
    ) + (
        SELECT count(*) {over_hours} AND started_ms >= :since AND started_ms < :until
            AND NOT (ended_ms >= :since AND ended_ms < :until)
    ) - (
        SELECT count(*) {over_hours} AND ended_ms >= :since AND ended_ms < :until
            AND NOT (started_ms >= :since AND started_ms < :until)
    )
"""
"""Corrects the sums, which go by the day of the end, to the days in which calls began."""

_PARTS: Final = {"chosen": _CHOSEN, "over_hours": _OVER_HOURS, "pending": _PENDING}
DAYS: Final = _PLACES.format(unit="day", table="daily", **_PARTS)
HOURS: Final = _PLACES.format(unit="hour", table="hourly", **_PARTS)
COUNT: Final = _COUNT.format(**_PARTS)
_PENDING_HOLDS: Final = (
    "SELECT count(*), coalesce(sum(hold_nano), 0) FROM requests WHERE state = 'pending'"
)


class CallBook:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read_page(self, chosen: CallFilter, below_id: str | None, limit: int) -> list[CallView]:
        with self._database.reading() as connection:
            return _read_calls(connection, chosen, below_id, limit)

    def count(self, chosen: CallFilter) -> int:
        if chosen.request_id is not None:
            return len(self.read_page(chosen, None, 1))
        return self._database.read_number(COUNT, _select(chosen))

    def measure_pending(self) -> tuple[int, int]:
        with self._database.reading() as connection:
            count, held_nano = connection.execute(_PENDING_HOLDS).fetchone()
            return int(count), int(held_nano)


def _read_calls(
    connection: sqlite3.Connection, chosen: CallFilter, below_id: str | None, limit: int
) -> list[CallView]:
    if chosen.request_id is not None:
        found = _read(connection, ONE, {**_select(chosen), "id": chosen.request_id})
        return [call for call in found if below_id is None or call.request_id < below_id][:limit]
    calls: list[CallView] = []
    for low, high in _find_ranges(connection, chosen, below_id):
        values: dict[str, Value] = {"low": low, "high": high, "limit": limit - len(calls)}
        calls += _read(connection, LATEST, {**_select(chosen), **values})
        if len(calls) == limit:
            break
    return calls


def _find_ranges(
    connection: sqlite3.Connection, chosen: CallFilter, below_id: str | None
) -> Iterator[tuple[str, str]]:
    """Yield ranges of ids, the latest first, that contain all of the chosen calls."""
    first, last = _find_days(chosen)
    top = find_first_id((last + 1) * DAY_MS)
    end = top if below_id is None else min(top, below_id)
    if chosen.key_id is None and chosen.model is None:
        yield find_first_id(first * DAY_MS), end
        return
    for day in _find_places(connection, DAYS, chosen, DAY_MS, (first, last)):
        if find_first_id(day * DAY_MS) >= end:
            continue
        hours = (day * HOURS_PER_DAY, (day + 1) * HOURS_PER_DAY - 1)
        for hour in _find_places(connection, HOURS, chosen, HOUR_MS, hours):
            low, high = find_first_id(hour * HOUR_MS), find_first_id((hour + 1) * HOUR_MS)
            if low < end:
                yield low, min(high, end)


def _find_places(
    connection: sqlite3.Connection,
    statement: str,
    chosen: CallFilter,
    unit_ms: int,
    bounds: tuple[int, int],
) -> list[int]:
    """Return the days or hours in which chosen calls may have begun, the latest first."""
    first, last = bounds
    values = {
        **_select(chosen),
        "ms": unit_ms,
        "first": first,
        "last": last,
        "since": first * unit_ms,
        "until": (last + 1) * unit_ms,
    }
    return sorted(set(read_rows(connection, statement, values)), reverse=True)


def _read(
    connection: sqlite3.Connection, statement: str, values: dict[str, Value]
) -> list[CallView]:
    rows = read_rows(connection, statement, values)
    return sorted(map(_view, rows), key=_by_id, reverse=True)


def _select(chosen: CallFilter) -> dict[str, Value]:
    first, last = _find_days(chosen)
    return {
        "account": chosen.account_id,
        "key": chosen.key_id,
        "model": chosen.model,
        "first": first,
        "last": last,
        "since": first * DAY_MS,
        "until": (last + 1) * DAY_MS,
    }


def _find_days(chosen: CallFilter) -> tuple[int, int]:
    first = 0 if chosen.first_day is None else max(chosen.first_day, 0)
    last = LAST_DAY if chosen.last_day is None else min(chosen.last_day, LAST_DAY)
    return first, max(last, -1)


def _by_id(call: CallView) -> str:
    return call.request_id


def _view(row: _Columns) -> CallView:
    key_display, is_stream, is_estimated = apikeys.display(row[7]), bool(row[11]), bool(row[17])
    tokens = Tokens(*row[12:16])
    return CallView(
        *row[:7], key_display, *row[8:11], is_stream, tokens, row[16], is_estimated, row[18]
    )
