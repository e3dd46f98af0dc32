"""Reads of a serving process: what it keeps in memory; receipts, spending and keys that ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, Final

import orjson

from gateway.ledger.base import Account, Key
from gateway.ledger.call_records import Receipt, Spent
from gateway.ledger.key_records import Allowance, Budget, EndedKey, Period, Spending, find_span
from gateway.ledger.serving.memory import KeyRow, Snapshot
from gateway.ledger.sql.connection import Connection, Rows, Values
from gateway.ledger.sql.rows import (
    CORRECTIONS,
    KEY_LIVES,
    KEY_TERMS,
    RECEIPT,
    TERMS,
    KeyTermsColumns,
    TermsColumns,
    make_receipt,
    read_key_terms,
    read_terms,
)
from gateway.times import DAY_MS

_ACCOUNTS: Final = f"SELECT id, name, suspended, balance_nano, {TERMS} FROM accounts"  # noqa: S608 - built from constants
_KEYS: Final = f"""
    SELECT keys.id, keys.account_id, keys.digest, keys.revoked_ms, keys.origin_id,
        origins.spent_nano, {KEY_TERMS}
    FROM keys JOIN keys AS origins ON origins.id = keys.origin_id
"""  # noqa: S608
_BUDGETS: Final = (
    "SELECT id, account_id, name, amount_nano, period, spent_nano, period_day FROM budgets"
)
_LIVE_KEYS: Final = f"{_KEYS} WHERE {KEY_LIVES}"
_NUMBERS: Final = " WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))"
_NAMES: Final = " WHERE keys.id IN (SELECT CAST(value AS TEXT) FROM json_each(:ids))"


def read_all(connection: Connection, now_ms: int) -> Snapshot:
    """Read all accounts and live keys, inside the caller's transaction."""
    accounts = tuple(_account_row(row) for row in connection.execute(_ACCOUNTS))
    keys = tuple(_key_row(row) for row in connection.execute(_LIVE_KEYS, {"now": now_ms}))
    return Snapshot(accounts, keys, _read_budgets(connection, keys, ()))


def read_changed(connection: Connection, changed: Sequence[tuple[str, str]]) -> Snapshot:
    """Read what these rows of `changes` name, each by its kind and id."""
    named: dict[str, set[str]] = {"account": set(), "key": set(), "budget": set()}
    for kind, id_ in changed:
        named[kind].add(id_)
    accounts = _select(connection, _ACCOUNTS + _NUMBERS, named["account"])
    keys = tuple(_key_row(row) for row in _select(connection, _KEYS + _NAMES, named["key"]))
    budgets = _read_budgets(connection, keys, map(int, named["budget"]))
    return Snapshot(tuple(_account_row(row) for row in accounts), keys, budgets)


def _read_budgets(
    connection: Connection, keys: Sequence[KeyRow], others: Collection[int] | map[int]
) -> tuple[Budget, ...]:
    """Return the budgets of these keys, and others."""
    ids = {key.terms.budget_id for key in keys if key.terms.budget_id is not None}.union(others)
    return tuple(_budget_row(row) for row in _select(connection, _BUDGETS + _NUMBERS, ids))


def _select(connection: Connection, sql: str, ids: Collection[str] | Collection[int]) -> list[Any]:
    if not ids:
        return []
    return connection.execute(sql, {"ids": orjson.dumps(list(ids)).decode()}).fetchall()


def _account_row(row: tuple[int, str, int, int, *TermsColumns]) -> Account:
    account_id, name, suspended, balance_nano = row[:4]
    return Account(account_id, name, bool(suspended), balance_nano, terms=read_terms(row[4:]))


def _budget_row(row: tuple[int, int, str | None, int, Period, int, int]) -> Budget:
    budget_id, account_id, name, amount_nano, period, spent_nano, period_day = row
    spending = Spending(find_span(period, period_day * DAY_MS), spent_nano)
    return Budget(budget_id, account_id, name, Allowance(amount_nano, period), spending)


def _key_row(
    row: tuple[str, int, bytes, int | None, str, int, *KeyTermsColumns],
) -> KeyRow:
    return KeyRow(*row[:3], read_key_terms(row[6:]), *row[3:6])


_SPENT: Final = """
    SELECT
        coalesce(sum(cost_nano) FILTER (WHERE day >= :today), 0),
        coalesce(sum(cost_nano) FILTER (WHERE day > :today - 7), 0),
        coalesce(sum(cost_nano), 0)
    FROM daily WHERE account_id = :account AND day > :today - 30 AND key_id = :key
"""
_ENDED_KEY: Final = "SELECT revoked_ms, expires_ms FROM keys WHERE digest = ?"


class Lookups(ABC):
    """Implements `serving.ledger.Reader`; each database has its own connection and thread for it."""

    async def read_receipt(self, request_id: str) -> Receipt | None:
        wanted = {"id": request_id}
        rows = await self._fetch(RECEIPT, wanted)
        # The corrections are read behind it: none is older than what it corrects.
        return make_receipt(rows[0], await self._fetch(CORRECTIONS, wanted)) if rows else None

    async def read_spent(self, key: Key, today: int) -> Spent:
        """Return what a key was charged; `today` is counted in UTC days from the epoch."""
        (row,) = await self._fetch(
            _SPENT, {"account": key.account.id, "key": key.id, "today": today}
        )
        return Spent(*row)

    async def read_ended_key(self, digest: bytes) -> EndedKey | None:
        """Return when a key that is not in memory ended; None if there never was one."""
        rows = await self._fetch(_ENDED_KEY, (digest,))
        return EndedKey(*rows[0]) if rows else None

    @abstractmethod
    async def _fetch(self, sql: str, values: Values) -> Rows:
        """Return the rows of a statement. Raises LedgerUnavailable."""
