"""Movements of a balance, the latest first: statements and views.

Rows come as one JSON array, as in `rows`: every row that is stepped to gives up the GIL, and has to
win it back from a busy event loop.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

import orjson

from gateway.ledger.batch import EntryKind
from gateway.ledger.records import EntryFilter, EntryRun, EntryView

END: Final = 2**63 - 1
"""No id and no time is beyond it."""

_RUN: Final = """
    WITH run AS (
        SELECT id, kind, amount_nano, balance_after_nano, request_id, note, created_ms
        FROM entries
        WHERE account_id = :account AND id < :before {of_kind}
        ORDER BY id DESC LIMIT :limit
    )
    SELECT
        json_group_array(json_array(
            id, :name, kind, amount_nano, balance_after_nano, request_id, note, created_ms
        )) FILTER (WHERE created_ms >= :since AND created_ms < :until),
        count(*), min(id)
    FROM run
"""
_MOVES: Final = _RUN.format(of_kind="AND kind = :kind AND kind <> 'charge'")
"""As the index `entries_moves` has it, which leaves charges out."""

RUNS: Final[Mapping[EntryKind | None, str]] = {
    None: _RUN.format(of_kind=""),
    "charge": _RUN.format(of_kind="AND kind = 'charge'"),
    "credit": _MOVES,
    "code": _MOVES,
    "correction": _MOVES,
}
COUNT: Final = """
    SELECT
        iif(coalesce(:kind, 'charge') = 'charge', (
            SELECT coalesce(sum(requests), 0) FROM daily WHERE account_id = :account
        ), 0) + (
            SELECT count(*) FROM entries
            WHERE account_id = :account AND kind = coalesce(:kind, kind) AND kind <> 'charge'
        )
"""
"""Every posted request has one charge, so charges are counted by days, not one by one."""


def read_run(
    connection: sqlite3.Connection, chosen: EntryFilter, name: str, below_id: int | None, limit: int
) -> EntryRun:
    """Look at `limit` entries below an id, and give those of the chosen times."""
    found, seen, last_id = connection.execute(
        RUNS[chosen.kind],
        {
            "account": chosen.account_id,
            "name": name,
            "kind": chosen.kind,
            "before": END if below_id is None else below_id,
            "since": 0 if chosen.since_ms is None else chosen.since_ms,
            "until": END if chosen.until_ms is None else chosen.until_ms,
            "limit": limit,
        },
    ).fetchone()
    entries = sorted((EntryView(*row) for row in orjson.loads(found)), key=_by_id, reverse=True)
    return EntryRun(tuple(entries), last_id if seen == limit else None)


def count(connection: sqlite3.Connection, account_id: int, kind: EntryKind | None) -> int:
    (number,) = connection.execute(COUNT, {"account": account_id, "kind": kind}).fetchone()
    return int(number)


def _by_id(entry: EntryView) -> int:
    return entry.id
