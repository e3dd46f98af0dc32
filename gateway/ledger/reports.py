"""What the operator's side reads: accounts, keys, entries, usage. Statements and views, no more."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

import orjson

from gateway.apikeys import PREFIX
from gateway.ledger.records import AccountView, EntryView, KeyView, NotFound, UsageRow
from gateway.money import Tokens

_ACCOUNTS: Final = """
    SELECT id, name, operator, suspended, balance_nano, coalesce((
        SELECT sum(hold_nano) FROM requests
        WHERE requests.account_id = accounts.id AND state = 'pending'
    ), 0), created_ms
    FROM accounts
    WHERE name = coalesce(?, name) ORDER BY name
"""
_KEYS: Final = """
    SELECT keys.id, accounts.name, keys.name, last4, models, requests_per_minute,
        tokens_per_minute, concurrency, cap_nano, spent_nano, keys.created_ms, expires_ms,
        revoked_ms
    FROM keys JOIN accounts ON accounts.id = keys.account_id
    WHERE accounts.name = coalesce(:account, accounts.name) AND keys.id = coalesce(:id, keys.id)
    ORDER BY accounts.name, keys.created_ms, keys.id
"""
_ENTRIES: Final = """
    SELECT entries.id, accounts.name, kind, amount_nano, balance_after_nano, request_id, note,
        entries.created_ms
    FROM entries JOIN accounts ON accounts.id = entries.account_id
"""
_LATEST_ENTRIES: Final = _ENTRIES + " WHERE accounts.name = ? ORDER BY entries.id DESC LIMIT ?"
_IDEMPOTENT_ENTRY: Final = _ENTRIES + " WHERE account_id = ? AND idempotency_key = ?"

_USAGE: Final = """
    FROM requests JOIN accounts ON accounts.id = requests.account_id
    WHERE state = 'posted' AND accounts.name = coalesce(:account, accounts.name)
        AND ended_ms >= coalesce(:since, ended_ms)
        AND (:until IS NULL OR ended_ms < :until)
    GROUP BY 1 ORDER BY 1
"""
_SUMS: Final = """
    count(*), sum(input_tokens), sum(cached_input_tokens), sum(cache_write_tokens),
    sum(output_tokens), sum(cost_nano)
"""
USAGE_GROUPS: Final = {
    "day": "SELECT strftime('%Y-%m-%d', ended_ms / 1000, 'unixepoch')," + _SUMS + _USAGE,
    "model": "SELECT model," + _SUMS + _USAGE,
    "key": "SELECT key_id," + _SUMS + _USAGE,
}
"""By what usage can be summed; days are UTC."""


def read_accounts(connection: sqlite3.Connection) -> list[AccountView]:
    return [_account_view(row) for row in connection.execute(_ACCOUNTS, (None,))]


def read_account(connection: sqlite3.Connection, name: str) -> AccountView:
    row = connection.execute(_ACCOUNTS, (name,)).fetchone()
    if row is None:
        raise NotFound(f"there is no account '{name}'")
    return _account_view(row)


def read_keys(connection: sqlite3.Connection, account: str | None) -> list[KeyView]:
    rows = connection.execute(_KEYS, {"account": account, "id": None})
    return [_key_view(row) for row in rows]


def read_key(connection: sqlite3.Connection, key_id: str) -> KeyView:
    row = connection.execute(_KEYS, {"account": None, "id": key_id}).fetchone()
    if row is None:
        raise NotFound(f"there is no key '{key_id}'")
    return _key_view(row)


def read_entries(connection: sqlite3.Connection, account: str, limit: int) -> list[EntryView]:
    """The latest first."""
    return [EntryView(*row) for row in connection.execute(_LATEST_ENTRIES, (account, limit))]


def find_by_idempotency_key(
    connection: sqlite3.Connection, account_id: int, idempotency_key: str | None
) -> EntryView | None:
    if idempotency_key is None:
        return None
    row = connection.execute(_IDEMPOTENT_ENTRY, (account_id, idempotency_key)).fetchone()
    return None if row is None else EntryView(*row)


def read_usage(
    connection: sqlite3.Connection,
    by: str,
    account: str | None,
    since_ms: int | None,
    until_ms: int | None,
) -> list[UsageRow]:
    rows = connection.execute(
        USAGE_GROUPS[by], {"account": account, "since": since_ms, "until": until_ms}
    )
    return [
        UsageRow(group, requests, Tokens(*tokens), cost_nano)
        for group, requests, *tokens, cost_nano in rows
    ]


def _account_view(row: tuple[Any, ...]) -> AccountView:
    account_id, name, operator, suspended, balance_nano, held_nano, created_ms = row
    return AccountView(
        account_id, name, bool(operator), bool(suspended), balance_nano, held_nano, created_ms
    )


def _key_view(row: tuple[Any, ...]) -> KeyView:
    key_id, account, name, last4, models, *rest = row
    allowed = None if models is None else tuple(orjson.loads(models))
    return KeyView(key_id, account, name, f"{PREFIX}…{last4}", allowed, *rest)
