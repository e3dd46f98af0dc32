"""Entries of one account or of all, in runs: the latest first.

Rows come as one JSON array, see `database.read_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, get_args

import orjson

from gateway.ledger.records import MAX_INTEGER, EntryKind, EntryView
from gateway.ledger.sql.database import Part, read_script
from gateway.ledger.sql.rows import FILED_ENTRIES

_SQL: Final = read_script(__file__)


@dataclass(frozen=True, slots=True)
class EntryFilter:
    account_id: int | None
    """None: all accounts."""
    kind: EntryKind | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """The exclusive end."""


@dataclass(frozen=True, slots=True)
class EntryRun:
    """Consecutive entries, the latest first."""

    entries: tuple[EntryView, ...]
    next_id: int | None
    """The next run is below this id; None at the end."""


def _write_run(source: str, where: str, id_: str, order: str = "") -> str:
    return f"""
        WITH run AS (
            SELECT entries.* FROM {source} WHERE {where} AND {id_} < :before
            ORDER BY {order or id_} DESC LIMIT :limit
        )
        SELECT
            json_group_array(json_array(
                run.id, name, kind, amount_nano, balance_after_nano, request_id, note,
                run.created_ms
            )) FILTER (WHERE run.created_ms >= :since AND run.created_ms < :until),
            count(*), min(run.id)
        FROM run JOIN accounts ON accounts.id = run.account_id
    """  # noqa: S608 - of constants


_MOVING: Final = [one for one in get_args(EntryKind) if one != "charge"]
_OWN: Final = "filed.account_id = :account"
_MOVES: Final = "kind = :kind AND kind <> 'charge'"
"""The condition of the index `entries_moves`, which leaves charges out."""
_ANY: Final = "account_id IN (SELECT id FROM accounts)"
RUNS: Final[Mapping[EntryKind | None, str]] = {
    None: _write_run(FILED_ENTRIES, _OWN, "filed.id"),
    "charge": _write_run(FILED_ENTRIES, f"{_OWN} AND kind = 'charge'", "filed.id"),
    **dict.fromkeys(_MOVING, _write_run("entries", f"account_id = :account AND {_MOVES}", "id")),
}
RUNS_OF_ALL: Final[Mapping[EntryKind | None, str]] = {
    None: _write_run("entries", "TRUE", "id"),
    "charge": _write_run("entries", "kind = 'charge'", "id"),
    # Sums need no order, so SQLite uses the index `entries_moves` and not all charges.
    **dict.fromkeys(_MOVING, _write_run("entries", f"{_MOVES} AND {_ANY}", "id", "id + 0")),
}
COUNT: Final = _SQL["count"]


class EntryRuns(Part):
    def read_run(self, chosen: EntryFilter, below_id: int | None, limit: int) -> EntryRun:
        """Look at the latest `limit` entries below an id; return those of the chosen times."""
        # They are filtered here, because times have no index.
        if chosen.account_id is not None:
            self._database.read_account_name(chosen.account_id)
        found, seen, last_id = self._database.read_one(
            (RUNS_OF_ALL if chosen.account_id is None else RUNS)[chosen.kind],
            {
                "account": chosen.account_id,
                "kind": chosen.kind,
                "before": MAX_INTEGER if below_id is None else below_id,
                "since": 0 if chosen.since_ms is None else chosen.since_ms,
                "until": MAX_INTEGER if chosen.until_ms is None else chosen.until_ms,
                "limit": limit,
            },
        )
        rows = orjson.loads(found) if found else []
        # SQLite promises no order within json_group_array.
        entries = sorted((EntryView(*row) for row in rows), key=lambda one: one.id, reverse=True)
        return EntryRun(tuple(entries), last_id if seen == limit else None)

    def count(self, account_id: int | None, kind: EntryKind | None = None) -> int:
        sql = COUNT.replace("account_id = :account", _ANY) if account_id is None else COUNT
        return self._database.read_number(sql, {"account": account_id, "kind": kind})
