"""Entries: appended once, and read the latest first.

Rows come as one JSON array, see `connection.read_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import orjson

from gateway.ledger.records import (
    MAX_INTEGER,
    AccountView,
    Conflict,
    EntryFilter,
    EntryKind,
    EntryRun,
    EntryView,
    NotFound,
    Refused,
)
from gateway.ledger.sql.books.database import (
    Database,
    append_change,
    read_account,
    read_account_name,
)
from gateway.ledger.sql.connection import Connection
from gateway.ledger.sql.posting import Draft, post_entry
from gateway.money import format_amount

_ACTIONS: Final[Mapping[EntryKind, str]] = {
    "credit": "account.credit",
    "correction": "account.correct",
    "code": "code.redeem",
}
_ENTRIES: Final = """
    SELECT entries.id, accounts.name, kind, amount_nano, balance_after_nano, request_id, note,
        entries.created_ms
    FROM entries JOIN accounts ON accounts.id = entries.account_id
"""
LATEST_ENTRIES: Final = f"""
    {_ENTRIES} WHERE account_id = (SELECT id FROM accounts WHERE name = ?)
    ORDER BY entries.id DESC LIMIT ?
"""  # noqa: S608 - built from constants
"""The account is known before entries are looked at, so that an index has them in order."""
_IDEMPOTENT_ENTRY: Final = _ENTRIES + " WHERE account_id = ? AND idempotency_key = ?"

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
"""With the condition of the index `entries_moves`, which leaves charges out."""

RUNS: Final[Mapping[EntryKind | None, str]] = {
    None: _RUN.format(of_kind=""),
    "charge": _RUN.format(of_kind="AND kind = 'charge'"),
    "credit": _MOVES,
    "code": _MOVES,
    "correction": _MOVES,
}
COUNT: Final = """
    SELECT
        CASE coalesce(:kind, 'charge') WHEN 'charge' THEN (
            SELECT coalesce(sum(requests), 0) FROM daily WHERE account_id = :account
        ) ELSE 0 END + (
            SELECT count(*) FROM entries
            WHERE account_id = :account AND kind = coalesce(:kind, kind) AND kind <> 'charge'
        )
"""
"""Every posted request has one charge, so charges are counted by days, not one by one."""


class EntryBook:
    def __init__(self, database: Database) -> None:
        self._database = database

    def post(
        self,
        account: str,
        kind: EntryKind,
        amount_nano: int,
        *,
        note: str,
        idempotency_key: str | None = None,
        request_id: str | None = None,
        target: str | None = None,
    ) -> EntryView:
        """Append one entry, or return that of the same idempotency key; the event names `target`."""
        with self._database.changing() as connection:
            owner = read_account(connection, account)
            draft = Draft(
                owner.id,
                kind,
                amount_nano,
                self._database.clock(),
                request_id,
                idempotency_key,
                note,
            )
            earlier = _find_by_idempotency_key(connection, owner.id, idempotency_key)
            if earlier is not None:
                return _require_same(earlier, draft)
            _require_room(owner, amount_nano)
            _require_request(connection, owner, request_id)
            post_entry(connection, draft)
            append_change(connection, "account", owner.id)
            self._database.note(
                _ACTIONS[kind],
                account=account,
                target=target or request_id,
                detail=f"{format_amount(amount_nano)}: {note}"
                if note
                else format_amount(amount_nano),
            )
            return _read_latest(connection, account, 1)[0]

    def read_latest(self, account: str, limit: int) -> list[EntryView]:
        """Return the latest first."""
        with self._database.reading() as connection:
            return _read_latest(connection, account, limit)

    def read_run(self, chosen: EntryFilter, below_id: int | None, limit: int) -> EntryRun:
        """Look at the latest `limit` entries below an id; return those of the chosen times."""
        # They are filtered here, because times have no index.
        with self._database.reading() as connection:
            name = read_account_name(connection, chosen.account_id)
            return _read_run(connection, chosen, name, below_id, limit)

    def count(self, account_id: int, kind: EntryKind | None = None) -> int:
        return self._database.read_number(COUNT, {"account": account_id, "kind": kind})


def _read_run(
    connection: Connection, chosen: EntryFilter, name: str, below_id: int | None, limit: int
) -> EntryRun:
    found, seen, last_id = connection.execute(
        RUNS[chosen.kind],
        {
            "account": chosen.account_id,
            "name": name,
            "kind": chosen.kind,
            "before": MAX_INTEGER if below_id is None else below_id,
            "since": 0 if chosen.since_ms is None else chosen.since_ms,
            "until": MAX_INTEGER if chosen.until_ms is None else chosen.until_ms,
            "limit": limit,
        },
    ).fetchone()
    rows = orjson.loads(found) if found else []
    entries = sorted((EntryView(*row) for row in rows), key=_by_id, reverse=True)
    return EntryRun(tuple(entries), last_id if seen == limit else None)


def _read_latest(connection: Connection, account: str, limit: int) -> list[EntryView]:
    return [EntryView(*row) for row in connection.execute(LATEST_ENTRIES, (account, limit))]


def _find_by_idempotency_key(
    connection: Connection, account_id: int, idempotency_key: str | None
) -> EntryView | None:
    if idempotency_key is None:
        return None
    row = connection.execute(_IDEMPOTENT_ENTRY, (account_id, idempotency_key)).fetchone()
    return None if row is None else EntryView(*row)


def _require_same(earlier: EntryView, draft: Draft) -> EntryView:
    """Return the earlier entry of a repeated call; refuse a different call under its key."""
    if (earlier.kind, earlier.amount_nano, earlier.note, earlier.request_id) != (
        draft.kind,
        draft.amount_nano,
        draft.note,
        draft.request_id,
    ):
        raise Conflict(
            f"the idempotency key '{draft.idempotency_key}' was used before, for another entry"
        )
    return replace(earlier, is_repeated=True)


def _require_room(account: AccountView, amount_nano: int) -> None:
    if abs(account.balance_nano + amount_nano) > MAX_INTEGER:
        raise Refused(
            f"the balance of '{account.name}' would be beyond what the ledger can keep",
            field="amount",
        )


def _require_request(connection: Connection, account: AccountView, request_id: str | None) -> None:
    if request_id is None:
        return
    found = connection.execute(
        "SELECT 1 FROM requests WHERE id = ? AND account_id = ?", (request_id, account.id)
    ).fetchone()
    if found is None:
        raise NotFound(
            f"account '{account.name}' has no request '{request_id}'", field="request_id"
        )


def _by_id(entry: EntryView) -> int:
    return entry.id
