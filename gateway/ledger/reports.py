"""What the operator's side reads: accounts, keys, entries, usage. Statements and views, no more."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

import orjson

from gateway import apikeys
from gateway.ledger.records import AccountView, EntryView, KeyView, NotFound, UsageRow
from gateway.money import Tokens
from gateway.times import DAY_MS

ACCOUNT_COLUMNS: Final = """
    accounts.id, accounts.name, operator, suspended, balance_nano, coalesce((
        SELECT sum(hold_nano) FROM requests
        WHERE requests.account_id = accounts.id AND state = 'pending'
    ), 0), accounts.created_ms
"""
"""As `view_account` takes them."""
KEY_WORKS: Final = """
    revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > :now)
    AND (cap_nano IS NULL OR spent_nano < cap_nano)
"""
"""As `KeyView.status` calls it active."""

_ACCOUNTS: Final = "SELECT" + ACCOUNT_COLUMNS + "FROM accounts"
_EACH_KEY: Final = """
    SELECT keys.id, accounts.name, keys.name, last4, models, requests_per_minute,
        tokens_per_minute, concurrency, cap_nano, spent_nano, keys.created_ms, expires_ms,
        revoked_ms, last_used_ms, replaced_by
    FROM keys JOIN accounts ON accounts.id = keys.account_id
"""
_KEYS: Final = (
    _EACH_KEY + " WHERE accounts.name = coalesce(?, accounts.name)"
    " ORDER BY accounts.name, keys.created_ms, keys.id"
)
_KEY: Final = _EACH_KEY + " WHERE keys.id = ? AND account_id = coalesce(?, account_id)"
_KEYS_OF: Final = (
    " WHERE account_id = :account AND (:live_at IS NULL OR"
    " (revoked_ms IS NULL AND (expires_ms IS NULL OR expires_ms > :live_at)))"
)
_KEY_PAGE: Final = (
    _EACH_KEY + _KEYS_OF + " AND (:ms IS NULL OR (keys.created_ms, keys.id) < (:ms, :id))"
    " ORDER BY keys.created_ms DESC, keys.id DESC LIMIT :limit"
)
_EVERY_KEY: Final = "SELECT count(*) FROM keys"
_COUNT_KEYS: Final = _EVERY_KEY + _KEYS_OF
_ENTRIES: Final = """
    SELECT entries.id, accounts.name, kind, amount_nano, balance_after_nano, request_id, note,
        entries.created_ms
    FROM entries JOIN accounts ON accounts.id = entries.account_id
"""
_LATEST_ENTRIES: Final = _ENTRIES + " WHERE accounts.name = ? ORDER BY entries.id DESC LIMIT ?"
_IDEMPOTENT_ENTRY: Final = _ENTRIES + " WHERE account_id = ? AND idempotency_key = ?"

_USAGE_OF_DAYS: Final = """
    SELECT {}, sum(requests), sum(input_tokens), sum(cached_input_tokens),
        sum(cache_write_tokens), sum(output_tokens), sum(cost_nano)
    FROM daily
    WHERE account_id IN (SELECT id FROM accounts WHERE name = coalesce(:account, name))
        AND (:since IS NULL OR day >= :since / 86400000)
        AND (:until IS NULL OR day < :until / 86400000)
    GROUP BY 1 HAVING sum(requests) > 0 ORDER BY 1
"""
_USAGE_OF_REQUESTS: Final = """
    SELECT {}, count(*), sum(input_tokens), sum(cached_input_tokens),
        sum(cache_write_tokens), sum(output_tokens), sum(cost_nano)
    FROM requests
    WHERE account_id IN (SELECT id FROM accounts WHERE name = coalesce(:account, name))
        AND state = 'posted' AND (:since IS NULL OR ended_ms >= :since)
        AND (:until IS NULL OR ended_ms < :until)
    GROUP BY 1 ORDER BY 1
"""
_GROUPS: Final = {"day": "strftime('%Y-%m-%d', {}, 'unixepoch')", "model": "model", "key": "key_id"}
"""By what usage can be summed; days are UTC."""


def read_accounts(connection: sqlite3.Connection) -> list[AccountView]:
    return [view_account(row) for row in connection.execute(_ACCOUNTS + " ORDER BY name")]


def read_account(connection: sqlite3.Connection, name: str) -> AccountView:
    row = connection.execute(_ACCOUNTS + " WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotFound(f"there is no account '{name}'")
    return view_account(row)


def read_keys(connection: sqlite3.Connection, account: str | None) -> list[KeyView]:
    return [_key_view(row) for row in connection.execute(_KEYS, (account,))]


def read_key(connection: sqlite3.Connection, key_id: str, account_id: int | None = None) -> KeyView:
    """With an account's id: of that account, so that another's key is as unknown as none."""
    row = connection.execute(_KEY, (key_id, account_id)).fetchone()
    if row is None:
        raise NotFound(f"there is no key '{key_id}'")
    return _key_view(row)


def read_key_page(
    connection: sqlite3.Connection,
    account_id: int,
    live_at_ms: int | None,
    after: tuple[str | int, ...] | None,
    limit: int,
) -> tuple[int, list[KeyView]]:
    """How many keys the account has, and those behind `after`, the newest first."""
    where = {"account": account_id, "live_at": live_at_ms}
    (total,) = connection.execute(_COUNT_KEYS, where).fetchone()
    created_ms, key_id = after or (None, None)
    page = {**where, "ms": created_ms, "id": key_id, "limit": limit}
    return total, [_key_view(row) for row in connection.execute(_KEY_PAGE, page)]


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
    """Of whole days from their sums, which is quick; of parts of days from the requests."""
    if any(ms is not None and ms % DAY_MS for ms in (since_ms, until_ms)):
        sql = _USAGE_OF_REQUESTS.format(_GROUPS[by].format("ended_ms / 1000"))
    else:
        sql = _USAGE_OF_DAYS.format(_GROUPS[by].format("day * 86400"))
    rows = connection.execute(sql, {"account": account, "since": since_ms, "until": until_ms})
    return [
        UsageRow(group, requests, Tokens(*tokens), cost_nano)
        for group, requests, *tokens, cost_nano in rows
    ]


def view_account(row: Sequence[Any]) -> AccountView:
    account_id, name, operator, suspended, balance_nano, held_nano, created_ms = row
    return AccountView(
        account_id, name, bool(operator), bool(suspended), balance_nano, held_nano, created_ms
    )


def _key_view(row: tuple[Any, ...]) -> KeyView:
    key_id, account, name, last4, models, *rest = row
    allowed = None if models is None else tuple(orjson.loads(models))
    return KeyView(key_id, account, name, apikeys.display(last4), allowed, *rest)
