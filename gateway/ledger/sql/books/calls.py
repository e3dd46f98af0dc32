"""Calls of one account or of all, the latest first.

Rows come as one JSON array (see `rows`); `call_search` has the statements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from gateway import apikeys
from gateway.ledger.alert_records import UpstreamFailure
from gateway.ledger.call_records import CallDetail, CallFilter, CallView, KeyLabel, Outcome
from gateway.ledger.records import NotFound
from gateway.ledger.sql.books.call_search import (
    COUNT,
    COUNT_FEW,
    LATEST,
    ONE,
    are_summed,
    choose_index,
    find_ranges,
    select,
)
from gateway.ledger.sql.books.database import Database
from gateway.ledger.sql.connection import (
    Connection,
    Value,
    join_parts,
    read_rows,
    sum_parts,
)
from gateway.ledger.sql.receipts import read_receipt
from gateway.money import Tokens

MAX_COUNTED: Final = 10_000
"""Calls that are counted one by one: so many take some 10 ms."""

_Columns = tuple[
    str, str, int, int | None, str, str, str, str, str,
    Literal["pending", "posted", "voided"], Outcome, int | None,
    int, int, int, int, int, int, int, int | None,
]  # fmt: skip
_PENDING_HOLDS: Final = (
    f"SELECT count(*), {sum_parts('hold_nano')} FROM requests WHERE state = 'pending'"  # noqa: S608
)
_ACCOUNT_OF_KEY: Final = "SELECT account_id FROM keys WHERE id = ?"
_LABELS: Final = """
    SELECT accounts.name, keys.id, keys.name, keys.last4
    FROM requests JOIN keys ON keys.id = key_id JOIN accounts ON accounts.id = requests.account_id
    WHERE requests.id = :id AND requests.account_id = coalesce(:account, requests.account_id)
"""
_FAILURES: Final = """
    SELECT failed_ms, request_id, status, reason, url FROM upstream_failures
    WHERE request_id = :id ORDER BY id
"""


class CallBook:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read_page(self, chosen: CallFilter, below_id: str | None, limit: int) -> list[CallView]:
        """Return the latest calls below an id, including pending ones."""
        with self._database.reading() as connection:
            chosen = _find_account(connection, chosen)
            if chosen.request_id is not None:
                found = _read(connection, ONE, {**select(chosen), "id": chosen.request_id})
                return [one for one in found if below_id is None or one.request_id < below_id]
            return _read_calls(connection, chosen, below_id, limit)

    def count(self, chosen: CallFilter) -> int | None:
        """Return how many calls are chosen; None if they are many and no sums tell their number."""
        if chosen.request_id is not None:
            return len(self.read_page(chosen, None, 1))
        with self._database.reading() as connection:
            chosen = _find_account(connection, chosen)
            if are_summed(chosen):
                summed = connection.execute(COUNT, select(chosen))
                return int(summed.fetchone()[0])
            return _count_few(connection, chosen)

    def read_detail(self, request_id: str, *, account_id: int | None = None) -> CallDetail:
        """Return a request with its receipt. Those of other accounts are treated as unknown."""
        with self._database.snapshot() as connection:
            values = {"id": request_id, "account": account_id}
            labels = connection.execute(_LABELS, values).fetchone()
            receipt = read_receipt(connection, request_id=request_id)
            failures = tuple(UpstreamFailure(*row) for row in connection.execute(_FAILURES, values))
        if labels is None or receipt is None:
            raise NotFound(
                "there is no call of that request id; a request that was refused before it began"
                " has none"
            )
        account, key_id, key_name, last4 = labels
        key = KeyLabel(key_id, key_name, apikeys.display(last4))
        return CallDetail(account, key, receipt, failures)

    def measure_pending(self) -> tuple[int, int]:
        """Return how many requests are pending, and what they hold in nano-units."""
        with self._database.reading() as connection:
            count, *parts = connection.execute(_PENDING_HOLDS).fetchone()
            return int(count), join_parts(*parts)


def _find_account(connection: Connection, chosen: CallFilter) -> CallFilter:
    """Name the account of the chosen key, as the search of one account looks at less."""
    if chosen.account_id is not None or chosen.key_id is None:
        return chosen
    row = connection.execute(_ACCOUNT_OF_KEY, (chosen.key_id,)).fetchone()
    return replace(chosen, account_id=0 if row is None else row[0])


def _read_calls(
    connection: Connection, chosen: CallFilter, below_id: str | None, limit: int
) -> list[CallView]:
    statement, calls = LATEST[choose_index(chosen)], list[CallView]()
    for low, high in find_ranges(connection, chosen, below_id):
        values: dict[str, Value] = {"low": low, "high": high, "limit": limit - len(calls)}
        calls += _read(connection, statement, {**select(chosen), **values})
        if len(calls) == limit:
            break
    return calls


def _count_few(connection: Connection, chosen: CallFilter) -> int | None:
    """Count calls one by one; return None if there are more than `MAX_COUNTED`."""
    statement, count = COUNT_FEW[choose_index(chosen)], 0
    for low, high in find_ranges(connection, chosen, None):
        values: dict[str, Value] = {"low": low, "high": high, "limit": MAX_COUNTED + 1 - count}
        count += int(connection.execute(statement, {**select(chosen), **values}).fetchone()[0])
        if count > MAX_COUNTED:
            return None
    return count


def _read(connection: Connection, statement: str, values: dict[str, Value]) -> list[CallView]:
    rows = read_rows(connection, statement, values)
    return sorted(map(_view, rows), key=_by_id, reverse=True)


def _by_id(call: CallView) -> str:
    return call.request_id


def _view(row: _Columns) -> CallView:
    key_display, is_stream, is_estimated = apikeys.display(row[8]), bool(row[12]), bool(row[18])
    tokens = Tokens(*row[13:17])
    return CallView(
        *row[:8], key_display, *row[9:12], is_stream, tokens, row[17], is_estimated, row[19]
    )
