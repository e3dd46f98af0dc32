"""Columns and the records made of them: entries, receipts, charges of budgets, costs.

At the end, the reads of a serving process: for its memory; receipts, spending and ended keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Final

import orjson

from gateway.base.money import NONE, Tokens
from gateway.base.prices import read_price
from gateway.base.times import DAY_MS
from gateway.ledger import budget_records, key_records
from gateway.ledger.base import Account, Key
from gateway.ledger.call_records import Correction, Receipt, Spent
from gateway.ledger.records import EntryKind
from gateway.ledger.serving.memory import KeyRow, Snapshot
from gateway.ledger.sql.database import (
    FOR_EXTRAS,
    KEY_LIVES,
    KEY_TERMS,
    TERMS,
    Connection,
    Database,
    KeyTermsColumns,
    Rows,
    TermsColumns,
    Values,
    read_key_terms,
    read_number,
    read_script,
    read_terms,
)

SQL: Final = read_script(__file__)
_BALANCE: Final = "SELECT balance_nano FROM accounts WHERE id = ?"


@dataclass(slots=True)
class Draft:
    """An entry before the balance after it is known."""

    account_id: int
    kind: EntryKind
    amount_nano: int
    created_ms: int
    request_id: str | None = None
    idempotency_key: str | None = None
    note: str = ""


def post_entry(database: Database, draft: Draft) -> None:
    """Append an entry and change the balance, inside a change."""
    # Read inside the transaction, beside which nobody else posts: no entry can come between.
    balance_nano = database.read_number(_BALANCE, (draft.account_id,)) + draft.amount_nano
    database.insert("entries", {**asdict(draft), "balance_after_nano": balance_nano})
    database.update("accounts", draft.account_id, {"balance_nano": balance_nano})


FILED_ENTRIES: Final = "entries_by_account AS filed CROSS JOIN entries ON entries.id = filed.id"
"""Entries found by the account and id of `filed`. In PostgreSQL that is an index of entries."""

_TOKENS: Final = (
    "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens",
    "cache_write_1h_tokens",
)  # fmt: skip
"""In the order of the fields of `Tokens`."""
USED: Final = (*_TOKENS, "extras")
"""The columns that `read_used` reads."""
_FIELDS: Final = (
    "key_id", "state", "outcome", "model", "provider", "stream", "hold_nano", "started_ms",
    "attempts", "status", "cost_nano", "estimated", "first_byte_ms", "ended_ms",
)  # fmt: skip
"""The columns of a request that a receipt has as fields of the same names."""
_RECEIPT: Final = (
    f"SELECT requests.id, price, {', '.join((*USED, *_FIELDS))}"  # noqa: S608 - of constants
    " FROM requests JOIN prices ON prices.id = price_id WHERE requests.id = :id"
)


def read_receipt(connection: Connection, *, request_id: str) -> Receipt | None:
    wanted = {"id": request_id}
    row = connection.execute(_RECEIPT, wanted).fetchone()
    if row is None:
        return None
    return make_receipt(row, connection.execute(SQL["corrections"], wanted).fetchall())


def make_receipt(row: Sequence[Any], corrections: list[tuple[int, str, int]]) -> Receipt:
    request_id, price, *others = row
    used, fields = others[: len(USED)], others[len(USED) :]
    tokens, tool_calls = read_used(used)
    found = dict(zip(_FIELDS, fields, strict=True))
    found |= {name: bool(found[name]) for name in ("stream", "estimated")}
    if found["status"] is None:
        found["attempts"] = None  # the request is pending or interrupted
    return Receipt(
        request_id=request_id,
        price=read_price(price),
        tokens=tokens,
        tool_calls=tool_calls,
        corrections=tuple(Correction(*one) for one in corrections),
        **found,
    )


def read_used(used: Sequence[Any]) -> tuple[Tokens, Mapping[str, int]]:
    """Read the columns `USED`."""
    given, cached, written, made, written_1h, extras = used
    told: dict[str, dict[str, int]] = {} if extras is None else orjson.loads(extras)
    tokens = Tokens(given, cached, written, made, written_1h, told.get("media", NONE))
    return tokens, told.get("tools", NONE)


def sum_charges(connection: Connection, budget_id: int, span: budget_records.Span) -> int:
    """Return what a budget was charged for requests that ended in a period."""
    values = (budget_id, span.starts_ms, span.ends_ms)
    return read_number(connection, SQL["sum of a budget"], values)


def end_period(period: budget_records.Period, first_day: int) -> int:
    return budget_records.find_span(period, first_day * DAY_MS).ends_ms


def write_usage_sums(add_up: Callable[[str], str]) -> tuple[str, ...]:
    """Write the sums of usage over charged requests; `add_up` writes that of an amount."""
    return (
        "count(*)",
        "sum(input_tokens)",
        "sum(cached_input_tokens)",
        "sum(cache_write_tokens + cache_write_1h_tokens)",
        "sum(output_tokens)",
        add_up("cost_nano"),
    )


def write_cost_sums(add_up: Callable[[str], str]) -> tuple[str, ...]:
    """Write the sums of what providers bill over charged requests."""
    difference = "reported_cost_nano - provider_cost_nano"
    return (
        "count(provider_cost_nano)",  # NULLs are not counted, here and below
        add_up("CASE WHEN provider_cost_nano IS NOT NULL THEN cost_nano END"),
        add_up("provider_cost_nano"),
        "count(reported_cost_nano)",
        add_up("reported_cost_nano"),
        f"count({difference})",
        add_up(difference),
    )


def is_amount(name: str) -> bool:
    return name.endswith("_nano")


SUMS: Final = (
    "requests", "failed", "input_tokens", "cached_input_tokens", "cache_write_tokens",
    "output_tokens", "cost_nano",
)  # fmt: skip
DAY_SUMS: Final = (
    *SUMS, "known", "charged_nano", "provider_cost_nano", "reported", "reported_nano", "compared",
    "difference_nano",
)  # fmt: skip
"""The columns of sums by hour, and of those by day, which have what providers bill, too."""


def name_parts(name: str) -> tuple[str, ...]:
    """Name the columns of `daily_totals` for a sum of `daily`: an amount has two parts."""
    stem = name.removesuffix("_nano")
    return (f"{stem}_wholes", f"{stem}_rests") if is_amount(name) else (name,)


TOTALS: Final = tuple(chain.from_iterable(map(name_parts, DAY_SUMS)))

_ACCOUNTS: Final = f"SELECT id, name, suspended, balance_nano, {TERMS} FROM accounts"  # noqa: S608 - built from constants
_KEYS: Final = f"""
    SELECT keys.id, keys.account_id, keys.digest, keys.revoked_ms, keys.origin_id,
        origins.spent_nano, {KEY_TERMS}
    FROM keys JOIN keys AS origins ON origins.id = keys.origin_id
"""  # noqa: S608
_LIVE_KEYS: Final = f"{_KEYS} WHERE {KEY_LIVES}"
BUDGET_COLUMNS: Final = "budgets.id, budgets.account_id, budgets.name, amount_nano, period, budgets.spent_nano, period_day"
BudgetColumns = tuple[int, int, str | None, int, budget_records.Period, int, int]
_NUMBERS: Final = " WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))"
_BUDGETS: Final = f"SELECT {BUDGET_COLUMNS} FROM budgets{_NUMBERS}"  # noqa: S608
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
    found = tuple(_account_row(row) for row in accounts)
    return Snapshot(found, keys, budgets, for_extras=FOR_EXTRAS in changed)


def _read_budgets(
    connection: Connection, keys: Sequence[KeyRow], others: Collection[int] | map[int]
) -> tuple[budget_records.Budget, ...]:
    """Return the budgets of these keys, and others."""
    ids = {key.terms.budget_id for key in keys if key.terms.budget_id is not None}.union(others)
    return tuple(read_budget(row) for row in _select(connection, _BUDGETS, ids))


def _select(connection: Connection, sql: str, ids: Collection[str] | Collection[int]) -> list[Any]:
    if not ids:
        return []
    return connection.execute(sql, {"ids": orjson.dumps(list(ids)).decode()}).fetchall()


def _account_row(row: tuple[int, str, int, int, *TermsColumns]) -> Account:
    account_id, name, suspended, balance_nano = row[:4]
    return Account(account_id, name, bool(suspended), balance_nano, terms=read_terms(row[4:]))


def read_budget(row: BudgetColumns) -> budget_records.Budget:
    budget_id, account_id, name, amount_nano, period, spent_nano, period_day = row
    spending = budget_records.make_spending(period, period_day, spent_nano)
    return budget_records.Budget(
        budget_id, account_id, name, budget_records.Allowance(amount_nano, period), spending
    )


def _key_row(row: tuple[str, int, bytes, int | None, str, int, *KeyTermsColumns]) -> KeyRow:
    return KeyRow(*row[:3], read_key_terms(row[6:]), *row[3:6])


_ENDED_KEY: Final = "SELECT revoked_ms, expires_ms FROM keys WHERE digest = ?"


class Lookups(ABC):
    """Implements `serving.ledger.Reader`; each database has its own connection and thread for it."""

    _SPENT = SQL["spent"].format(daily="daily")

    async def read_receipt(self, request_id: str) -> Receipt | None:
        wanted = {"id": request_id}
        rows = await self.fetch(_RECEIPT, wanted)
        # Corrections are read after the request: none is older than its request.
        return make_receipt(rows[0], await self.fetch(SQL["corrections"], wanted)) if rows else None

    async def read_spent(self, key: Key, today: int) -> Spent:
        """Return what a key was charged; `today` is counted in UTC days from the epoch."""
        (row,) = await self.fetch(
            self._SPENT, {"account": key.account.id, "key": key.id, "today": today}
        )
        return Spent(*row)

    async def read_ended_key(self, digest: bytes) -> key_records.EndedKey | None:
        """Return when a key that is not in memory ended; None if there never was one."""
        rows = await self.fetch(_ENDED_KEY, (digest,))
        return key_records.EndedKey(*rows[0]) if rows else None

    @abstractmethod
    async def fetch(self, sql: str, values: Values) -> Rows:
        """Return the rows of a statement. Raises LedgerUnavailable."""
