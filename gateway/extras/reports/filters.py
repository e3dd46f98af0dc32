"""SQL that finds the chosen calls: by which index, under which conditions, with which parameters.

Request ids begin with the time of the request, so a time is a range of ids, and each index has the
calls of a range in their order. In SQLite some indexes are tables, which are written behind the
calls (see `sqlite.folds`). The filter decides which index is used:

    calls that failed, or are pending   an index of those alone
    one model of all accounts           the index by model
    one provider                        the index by provider
    anything else                       the index by account; by id for all accounts
"""

from __future__ import annotations

from typing import Final, Literal

from gateway.base.times import DAY_MS
from gateway.extras.reports.records import CallFilter
from gateway.ledger.sql.database import Value

LAST_MS: Final = 3_000_000 * DAY_MS
"""Later than the year 9999, the last that filters accept."""
COMPLETE_STATUS: Final = 200
"""The status of every complete call, and of streams that broke later."""

Index = Literal["id", "account", "model", "provider", "failed", "pending"]


def _find_by(table: str) -> str:
    """Write the source of calls whose ids are found in a table; PostgreSQL has an index for it."""
    return f"{table} AS called CROSS JOIN requests ON requests.id = called.id"


INDEXES: Final[dict[Index, tuple[str, str, str]]] = {
    "id": ("requests", "TRUE", "requests.id"),
    "account": (
        _find_by("calls_by_account"),
        (
            "called.account_id = :account AND called.key_id = coalesce(:key, called.key_id)"
            " AND called.model = coalesce(:model, called.model)"
        ),
        "called.id",
    ),
    "model": (_find_by("calls_by_model"), "called.model = :model", "called.id"),
    "provider": (
        _find_by("calls_by_provider"),
        "called.provider = :provider AND called.account_id = coalesce(:account, called.account_id)",
        "called.id",
    ),
    "failed": (
        "requests INDEXED BY requests_failed",
        "outcome NOT IN ('pending', 'complete')",
        "requests.id",
    ),
    "pending": ("requests INDEXED BY requests_pending", "state = 'pending'", "requests.id"),
}
"""The source, with SQLite's hint to use an index, which PostgreSQL does not get; the condition that
allows it; the id whose order it has."""

_CHOSEN: Final = """
    requests.account_id = coalesce(:account, requests.account_id)
    AND requests.key_id = coalesce(:key, requests.key_id)
    AND requests.model = coalesce(:model, requests.model)
    AND requests.provider = coalesce(:provider, requests.provider)
    AND outcome = coalesce(:outcome, outcome) AND (:status IS NULL OR status = :status)
    AND (:slower IS NULL OR ended_ms - started_ms > :slower AND outcome <> 'interrupted')
"""
_CALL: Final = f"""
    SELECT requests.id, accounts.name, started_ms, ended_ms, requests.model, requests.provider,
        requests.key_id, keys.name, last4, state, outcome, status, stream, input_tokens,
        cached_input_tokens, cache_write_tokens + cache_write_1h_tokens, output_tokens, cost_nano,
        estimated, first_byte_ms
    FROM {{source}} CROSS JOIN keys ON keys.id = requests.key_id
        CROSS JOIN accounts ON accounts.id = requests.account_id
    WHERE {{first}} AND {_CHOSEN}
"""  # noqa: S608 - built from constants, as those below
_COLUMNS: Final = 20
"""Columns of `_CALL`, which `write_rows` has to name."""
IN_RANGE: Final = "AND {id} >= :low AND {id} < :high"


def write_rows(sql: str, columns: int) -> str:
    """Write a statement that gives the rows of another one as one JSON array."""
    names = ", ".join(f"c{number}" for number in range(columns))
    rows = f"json_group_array(json_array({names}))"
    return f"WITH found ({names}) AS ({sql}) SELECT {rows} FROM found"  # noqa: S608


ONE: Final = write_rows(
    f"""
    {_CALL.format(source="requests", first="requests.id = :id")}
        AND started_ms >= :since AND started_ms < :until
        AND (:failed = 0 OR outcome NOT IN ('pending', 'complete'))
    """,
    _COLUMNS,
)


def _write_latest(index: Index) -> str:
    source, first, id_ = INDEXES[index]
    calls = f"{_CALL.format(source=source, first=first)} {IN_RANGE.format(id=id_)}"
    return write_rows(f"{calls} ORDER BY {id_} DESC LIMIT :limit", _COLUMNS)


def _write_chosen(index: Index) -> str:
    source, first, id_ = INDEXES[index]
    return f"FROM {source} WHERE {first} AND {_CHOSEN} {IN_RANGE.format(id=id_)}"


def _write_slowest(index: Index) -> str:
    # Only the shown calls are joined with their key and account.
    order = "ORDER BY ended_ms - started_ms DESC, requests.id DESC LIMIT :limit"
    slowest = f"SELECT requests.id {_write_chosen(index)} {order}"
    calls = _CALL.format(source="requests", first=f"requests.id IN ({slowest})")
    return write_rows(calls, _COLUMNS)


def _write_count(index: Index) -> str:
    return f"SELECT count(*) FROM (SELECT 1 {_write_chosen(index)} LIMIT :limit) AS chosen"  # noqa: S608


LATEST: Final = {index: _write_latest(index) for index in INDEXES}
SLOWEST: Final = {index: _write_slowest(index) for index in INDEXES}
COUNT_FEW: Final = {index: _write_count(index) for index in INDEXES}


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
    """Return whether the sums by day have the number of chosen calls.

    For all accounts together there may be as many rows of sums as calls.
    """
    if chosen.account_id is None:
        return False
    others = (chosen.provider, chosen.outcome, chosen.status, chosen.slower_than_ms)
    bounds = find_bounds(chosen)
    return all(other is None for other in others) and not any(ms % DAY_MS for ms in bounds)


def find_bounds(chosen: CallFilter) -> tuple[int, int]:
    """Return the times between which the chosen calls began; the end is exclusive."""
    since_ms = 0 if chosen.since_ms is None else max(chosen.since_ms, 0)
    until_ms = LAST_MS if chosen.until_ms is None else min(chosen.until_ms, LAST_MS)
    return since_ms, max(until_ms, 0)


def make_parameters(chosen: CallFilter, **others: Value) -> dict[str, Value]:
    """Return the parameters of a filter. `others` are added, or replace those of the same name."""
    since_ms, until_ms = find_bounds(chosen)
    return {
        "account": chosen.account_id,
        "key": chosen.key_id,
        "model": chosen.model,
        "provider": chosen.provider,
        "outcome": None if chosen.outcome == "failed" else chosen.outcome,
        "failed": chosen.outcome == "failed",
        "status": chosen.status,
        "slower": chosen.slower_than_ms,
        "first": since_ms // DAY_MS,
        "last": (until_ms - 1) // DAY_MS,
        "since": since_ms,
        "until": until_ms,
        **others,
    }
