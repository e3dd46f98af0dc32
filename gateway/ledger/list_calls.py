"""Calls of an account, the latest first: statements, views, and the walk that finds them.

Request ids begin with the time of the request, so the index by account and id has them in order,
and a day is a range of ids. Calls of one key or one model may be few among many. Their hours are
known from the sums by hour; those that ended in another hour than they began in have an index of
their own, and so have pending ones. Only those hours are walked. Rows come as one JSON array, as
in `rows`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Final

import orjson

from gateway import apikeys
from gateway.ledger.records import CallFilter, CallView
from gateway.money import Tokens
from gateway.times import DAY_MS, HOUR_MS, HOURS_PER_DAY

LAST_DAY: Final = 3_000_000
"""Beyond the year 9999, the last one that can be asked for."""

_CALL: Final = """
    SELECT requests.id AS id, started_ms, ended_ms, model, provider, key_id, keys.name AS key_name,
        last4, state, outcome, status, stream, input_tokens, cached_input_tokens,
        cache_write_tokens, output_tokens, cost_nano, estimated, first_byte_ms
    FROM requests CROSS JOIN keys ON keys.id = key_id
"""
_AS_JSON: Final = """
    SELECT json_group_array(json_array(
        id, started_ms, ended_ms, model, provider, key_id, key_name, last4, state, outcome, status,
        stream, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, cost_nano,
        estimated, first_byte_ms
    ))
"""
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
"""Sums are of the days in which calls ended; a list is of those in which they began."""

_PARTS: Final = {"chosen": _CHOSEN, "over_hours": _OVER_HOURS, "pending": _PENDING}
DAYS: Final = _PLACES.format(unit="day", table="daily", **_PARTS)
HOURS: Final = _PLACES.format(unit="hour", table="hourly", **_PARTS)
COUNT: Final = _COUNT.format(**_PARTS)


def read_calls(
    connection: sqlite3.Connection, chosen: CallFilter, below_id: str | None, limit: int
) -> list[CallView]:
    """The latest of the chosen calls with ids below `below_id`."""
    if chosen.request_id is not None:
        found = _read(connection, ONE, {**_select(chosen), "id": chosen.request_id})
        return [call for call in found if below_id is None or call.request_id < below_id][:limit]
    calls: list[CallView] = []
    for low, high in _find_ranges(connection, chosen, below_id):
        values = {"low": low, "high": high, "limit": limit - len(calls)}
        calls += _read(connection, LATEST, {**_select(chosen), **values})
        if len(calls) == limit:
            break
    return calls


def count(connection: sqlite3.Connection, chosen: CallFilter) -> int:
    if chosen.request_id is not None:
        return len(read_calls(connection, chosen, None, 1))
    (number,) = connection.execute(COUNT, _select(chosen)).fetchone()
    return int(number)


def _find_ranges(
    connection: sqlite3.Connection, chosen: CallFilter, below_id: str | None
) -> Iterator[tuple[str, str]]:
    """Ranges of ids, the latest first, in which all of the chosen calls are."""
    first, last = _find_days(chosen)
    top = _first_id((last + 1) * DAY_MS)
    end = top if below_id is None else min(top, below_id)
    if chosen.key_id is None and chosen.model is None:
        yield _first_id(first * DAY_MS), end
        return
    for day in _find_places(connection, DAYS, chosen, DAY_MS, (first, last)):
        if _first_id(day * DAY_MS) >= end:
            continue
        hours = (day * HOURS_PER_DAY, (day + 1) * HOURS_PER_DAY - 1)
        for hour in _find_places(connection, HOURS, chosen, HOUR_MS, hours):
            low, high = _first_id(hour * HOUR_MS), _first_id((hour + 1) * HOUR_MS)
            if low < end:
                yield low, min(high, end)


def _find_places(
    connection: sqlite3.Connection,
    statement: str,
    chosen: CallFilter,
    unit_ms: int,
    bounds: tuple[int, int],
) -> list[int]:
    """The days or hours in which some of the chosen calls may have begun, the latest first."""
    first, last = bounds
    values = {
        **_select(chosen),
        "ms": unit_ms,
        "first": first,
        "last": last,
        "since": first * unit_ms,
        "until": (last + 1) * unit_ms,
    }
    (places,) = connection.execute(statement, values).fetchone()
    return sorted(set(orjson.loads(places)), reverse=True)


def _read(connection: sqlite3.Connection, statement: str, values: dict[str, Any]) -> list[CallView]:
    (rows,) = connection.execute(statement, values).fetchone()
    return sorted(map(_view, orjson.loads(rows)), key=_by_id, reverse=True)


def _select(chosen: CallFilter) -> dict[str, Any]:
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


def _first_id(ms: int) -> str:
    """No id of a request that began then or later is below this (`state.make_request_id`)."""
    return f"req_{ms:012x}"


def _by_id(call: CallView) -> str:
    return call.request_id


def _view(row: list[Any]) -> CallView:
    view = [
        *row[:7],
        apikeys.display(row[7]),
        *row[8:11],
        bool(row[11]),
        Tokens(*row[12:16]),
        row[16],
        bool(row[17]),
        row[18],
    ]
    return CallView(*view)
