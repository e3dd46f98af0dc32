"""Receipts and spending, read on a connection beside the writer's.

A long read keeps the write-ahead log from being cut back, so all rows are fetched at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiosqlite

from gateway.errors import LedgerUnavailable
from gateway.ledger.base import Correction, Hold, Key, Receipt, Spent
from gateway.ledger.sqlite.schema import connect_reader
from gateway.ledger.sqlite.serving.thread import open_on_thread, run_on_thread
from gateway.money import Price, Tokens

_RECEIPT: Final = """
    SELECT id, key_id, state, outcome, model, provider, stream,
        input_price_nano, output_price_nano, cached_input_price_nano, cache_write_price_nano,
        request_price_nano, cache_write_1h_price_nano, web_search_price_nano, hold_nano, started_ms, attempts, status, input_tokens,
        cached_input_tokens, cache_write_tokens, output_tokens, cache_write_1h_tokens, cost_nano,
        estimated, first_byte_ms, ended_ms, web_searches, price_rule
    FROM requests WHERE id = :id
"""
_CORRECTIONS: Final = """
    SELECT amount_nano, note, created_ms
    FROM entries WHERE kind = 'correction' AND request_id = :id ORDER BY id
"""
_SPENT: Final = """
    SELECT
        coalesce(sum(cost_nano) FILTER (WHERE day >= :today), 0),
        coalesce(sum(cost_nano) FILTER (WHERE day > :today - 7), 0),
        coalesce(sum(cost_nano), 0)
    FROM daily WHERE account_id = :account AND day > :today - 30 AND key_id = :key
"""
_PRICES: Final = slice(7, 14)
_TOKENS: Final = slice(18, 23)


class ReceiptReader:
    """Reads one after the other; made by `open`."""

    def __init__(self, database: aiosqlite.Connection) -> None:
        self._database = database

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path) -> AsyncIterator[ReceiptReader]:
        connector = partial(connect_reader, path)
        async with open_on_thread(connector) as database:
            yield cls(database)

    async def read_receipt(self, request_id: str) -> Receipt | None:
        """Raises LedgerUnavailable."""
        rows = await self._fetch(_RECEIPT, {"id": request_id})
        if not rows:
            return None
        corrections = await self._fetch(_CORRECTIONS, {"id": request_id})
        return _make_receipt(rows[0], corrections)

    async def read_spent(self, key: Key, today: int) -> Spent:
        """Raises LedgerUnavailable."""
        wanted: dict[str, str | int] = {
            "account": key.account.id,
            "key": key.id,
            "today": today,
        }
        (row,) = await self._fetch(_SPENT, wanted)
        return Spent(*row)

    async def _fetch(self, sql: str, wanted: Mapping[str, str | int]) -> list[tuple[Any, ...]]:
        try:
            return await run_on_thread(self._database, partial(_fetch, sql=sql, wanted=wanted))
        except sqlite3.Error as error:
            raise LedgerUnavailable from error


def make_pending_receipt(hold: Hold) -> Receipt:
    """Return the receipt of a request whose row or end is not committed."""
    admission = hold.admission
    return Receipt(
        request_id=admission.request_id,
        key_id=hold.key.id,
        state="pending",
        outcome="pending",
        model=admission.model,
        provider=admission.provider,
        stream=admission.stream,
        price=admission.price,
        hold_nano=admission.hold_nano,
        started_ms=admission.started_ms,
    )


def _fetch(
    connection: sqlite3.Connection, sql: str, wanted: Mapping[str, str | int]
) -> list[tuple[Any, ...]]:
    return connection.execute(sql, wanted).fetchall()


def _make_receipt(row: tuple[Any, ...], corrections: list[tuple[Any, ...]]) -> Receipt:
    request_id, key_id, state, outcome, model, provider, stream = row[:7]
    hold_nano, started_ms, attempts, status = row[14:18]
    cost_nano, estimated, first_byte_ms, ended_ms, web_searches, price_rule = row[23:]
    return Receipt(
        request_id=request_id,
        key_id=key_id,
        state=state,
        outcome=outcome,
        model=model,
        provider=provider,
        stream=bool(stream),
        price=Price(*row[_PRICES]),
        hold_nano=hold_nano,
        started_ms=started_ms,
        attempts=None if status is None else attempts,
        status=status,
        tokens=Tokens(*row[_TOKENS]),
        web_searches=web_searches,
        price_rule=price_rule,
        cost_nano=cost_nano,
        estimated=bool(estimated),
        first_byte_ms=first_byte_ms,
        ended_ms=ended_ms,
        corrections=tuple(Correction(*one) for one in corrections),
    )
