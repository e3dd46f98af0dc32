"""The statements that search calls, and the ranges of ids that have to be searched.

Request ids begin with the time of the request, so a time is a range of ids, and each index has the
calls of a range in their order. What is chosen decides which index is used:

    calls that failed, or are pending   an index of those alone
    one model of all accounts           the index by model
    one provider                        the index by provider
    anything else                       the index by account; by id for all accounts

An account's calls of one key or one model may be few among many. The sums by hour tell in which hours they
ended; calls that ended in another hour than they began in have an index of their own, and so have
pending ones. Only those hours are searched.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from gateway.ledger.call_records import CallFilter
from gateway.ledger.sql.connection import Connection, Value, read_rows
from gateway.request_ids import find_first_id
from gateway.times import DAY_MS, HOUR_MS, HOURS_PER_DAY

LAST_MS: Final = 3_000_000 * DAY_MS
"""Later than the year 9999, the last that can be asked for."""
COMPLETE_STATUS: Final = 200
"""The status of every complete call, and of streams that broke later."""

Index = Literal["id", "account", "model", "provider", "failed", "pending"]
_INDEXES: Final[dict[Index, tuple[str, str]]] = {
    "id": ("", "TRUE"),
    "account": ("", "requests.account_id = :account"),
    "model": ("INDEXED BY requests_by_model", "model = :model"),
    "provider": ("INDEXED BY requests_by_provider", "provider = :provider"),
    "failed": ("INDEXED BY requests_failed", "outcome NOT IN ('pending', 'complete')"),
    "pending": ("INDEXED BY requests_pending", "state = 'pending'"),
}
"""SQLite's hint to use an index, which PostgreSQL does not get, and the condition that allows it."""

_USED: Final = "key_id = coalesce(:key, key_id) AND model = coalesce(:model, model)"
_CHOSEN: Final = f"""
    requests.account_id = coalesce(:account, requests.account_id) AND {_USED}
    AND provider = coalesce(:provider, provider) AND outcome = coalesce(:outcome, outcome)
    AND (:status IS NULL OR status = :status)
"""
_AS_JSON: Final = """
    SELECT json_group_array(json_array(
        id, account, started_ms, ended_ms, model, provider, key_id, key_name, last4, state,
        outcome, status, stream, input_tokens, cached_input_tokens, cache_write_tokens,
        output_tokens, cost_nano, estimated, first_byte_ms
    ))
"""
_CALL: Final = f"""
    SELECT requests.id AS id, accounts.name AS account, started_ms, ended_ms, model, provider,
        key_id, keys.name AS key_name, last4, state, outcome, status, stream, input_tokens,
        cached_input_tokens, cache_write_tokens + cache_write_1h_tokens AS cache_write_tokens,
        output_tokens, cost_nano, estimated, first_byte_ms
    FROM requests {{index}} CROSS JOIN keys ON keys.id = key_id
        CROSS JOIN accounts ON accounts.id = requests.account_id
    WHERE {{first}} AND {_CHOSEN}
"""  # noqa: S608 - built from constants, as those below
_IN_RANGE: Final = "AND requests.id >= :low AND requests.id < :high"
ONE: Final = f"""
    {_AS_JSON} FROM (
        {_CALL.format(index="", first="requests.id = :id")}
            AND started_ms >= :since AND started_ms < :until
            AND (:failed = 0 OR outcome NOT IN ('pending', 'complete'))
    ) AS one
"""


def _write_latest(index: Index) -> str:
    hint, first = _INDEXES[index]
    call = _CALL.format(index=hint, first=first)
    return f"{_AS_JSON} FROM ({call} {_IN_RANGE} ORDER BY requests.id DESC LIMIT :limit) AS latest"


def _write_count(index: Index) -> str:
    hint, first = _INDEXES[index]
    chosen = f"SELECT 1 FROM requests {hint} WHERE {first} AND {_CHOSEN} {_IN_RANGE} LIMIT :limit"  # noqa: S608
    return f"SELECT count(*) FROM ({chosen}) AS chosen"  # noqa: S608


LATEST: Final = {index: _write_latest(index) for index in _INDEXES}
COUNT_FEW: Final = {index: _write_count(index) for index in _INDEXES}

_OVER_HOURS: Final = f"""
    FROM requests
    WHERE account_id = :account AND ended_ms / {HOUR_MS} <> started_ms / {HOUR_MS} AND {_USED}
"""
_PENDING: Final = f"""
    FROM requests
    WHERE account_id = :account AND state = 'pending' AND started_ms >= :since AND started_ms < :until
        AND {_USED}
"""
_PLACES: Final = f"""
    SELECT json_group_array(place) FROM (
        SELECT place FROM (
            SELECT DISTINCT {{unit}} AS place FROM {{table}}
            WHERE account_id = :account AND {{unit}} >= :first AND {{unit}} <= :last AND {_USED}
        ) AS summed
        UNION ALL SELECT started_ms / :ms {_OVER_HOURS}
            AND started_ms >= :since AND started_ms < :until
        UNION ALL SELECT started_ms / :ms {_PENDING}
    ) AS places
"""  # noqa: S608
COUNT: Final = f"""
    SELECT (
        SELECT coalesce(sum(requests + failed), 0) FROM daily
        WHERE account_id = :account AND day >= :first AND day <= :last AND {_USED}
    ) + (
        SELECT count(*) {_PENDING}
    ) + (
        SELECT count(*) {_OVER_HOURS} AND started_ms >= :since AND started_ms < :until
            AND NOT (ended_ms >= :since AND ended_ms < :until)
    ) - (
        SELECT count(*) {_OVER_HOURS} AND ended_ms >= :since AND ended_ms < :until
            AND NOT (started_ms >= :since AND started_ms < :until)
    )
"""  # noqa: S608
"""Corrects the sums, which go by the day of the end, to the days in which calls began."""

DAYS: Final = _PLACES.format(unit="day", table="daily")
HOURS: Final = _PLACES.format(unit="hour", table="hourly")


def choose_index(chosen: CallFilter) -> Index:
    if chosen.outcome == "pending":
        return "pending"
    if chosen.outcome not in {None, "complete"} or chosen.status not in {None, COMPLETE_STATUS}:
        return "failed"
    if chosen.provider is not None and chosen.key_id is None and chosen.model is None:
        return "provider"
    if chosen.account_id is None:
        return "id" if chosen.model is None else "model"
    return "account"


def are_summed(chosen: CallFilter) -> bool:
    """Return whether the sums by day tell how many calls are chosen.

    Those of all accounts together may be as many as the calls.
    """
    if chosen.account_id is None:
        return False
    others = (chosen.provider, chosen.outcome, chosen.status)
    bounds = find_bounds(chosen)
    return all(other is None for other in others) and not any(ms % DAY_MS for ms in bounds)


def find_bounds(chosen: CallFilter) -> tuple[int, int]:
    """Return the times between which the chosen calls began; the end is exclusive."""
    since_ms = 0 if chosen.since_ms is None else max(chosen.since_ms, 0)
    until_ms = LAST_MS if chosen.until_ms is None else min(chosen.until_ms, LAST_MS)
    return since_ms, max(until_ms, 0)


def select(chosen: CallFilter) -> dict[str, Value]:
    """Return the parameters of a filter."""
    since_ms, until_ms = find_bounds(chosen)
    return {
        "account": chosen.account_id,
        "key": chosen.key_id,
        "model": chosen.model,
        "provider": chosen.provider,
        "outcome": None if chosen.outcome == "failed" else chosen.outcome,
        "failed": chosen.outcome == "failed",
        "status": chosen.status,
        "first": since_ms // DAY_MS,
        "last": (until_ms - 1) // DAY_MS,
        "since": since_ms,
        "until": until_ms,
    }


def find_ranges(
    connection: Connection, chosen: CallFilter, below_id: str | None
) -> Iterator[tuple[str, str]]:
    """Yield ranges of ids, the latest first, that contain all of the chosen calls."""
    since_ms, until_ms = find_bounds(chosen)
    lowest, top = find_first_id(since_ms), find_first_id(until_ms)
    end = top if below_id is None else min(top, below_id)
    is_wide = chosen.key_id is None and chosen.model is None
    if is_wide or choose_index(chosen) != "account":
        yield lowest, end
        return
    days = (since_ms // DAY_MS, (until_ms - 1) // DAY_MS)
    for day in _find_places(connection, DAYS, chosen, DAY_MS, days):
        if find_first_id(day * DAY_MS) >= end:
            continue
        hours = (day * HOURS_PER_DAY, (day + 1) * HOURS_PER_DAY - 1)
        for hour in _find_places(connection, HOURS, chosen, HOUR_MS, hours):
            low, high = find_first_id(hour * HOUR_MS), find_first_id((hour + 1) * HOUR_MS)
            if low < end and high > lowest:
                yield max(low, lowest), min(high, end)


def _find_places(
    connection: Connection,
    statement: str,
    chosen: CallFilter,
    unit_ms: int,
    bounds: tuple[int, int],
) -> list[int]:
    """Return the days or hours in which chosen calls may have begun, the latest first."""
    first, last = bounds
    values = {
        **select(chosen),
        "ms": unit_ms,
        "first": first,
        "last": last,
        "since": first * unit_ms,
        "until": (last + 1) * unit_ms,
    }
    rows = read_rows(connection, statement, values)
    return sorted(set(rows), reverse=True)
