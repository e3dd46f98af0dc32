"""Receipts, spending and keys that ended, read on a connection beside the writer's.

A long read keeps the write-ahead log from being cut back, so all rows are fetched at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import aiosqlite

from gateway.errors import LedgerUnavailable
from gateway.ledger.base import Key, Receipt
from gateway.ledger.key_records import EndedKey
from gateway.ledger.sql.lookups import read_ended_key, read_spent
from gateway.ledger.sql.receipts import read_receipt
from gateway.ledger.sqlite.schema import connect_reader
from gateway.ledger.sqlite.serving.thread import open_on_thread, run_on_thread
from gateway.ledger.usage_records import Spent

Result = TypeVar("Result")


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
        return await self._run(partial(read_receipt, request_id=request_id))

    async def read_spent(self, key: Key, today: int) -> Spent:
        """Raises LedgerUnavailable."""
        return await self._run(
            partial(read_spent, account_id=key.account.id, key_id=key.id, today=today)
        )

    async def read_ended_key(self, digest: bytes) -> EndedKey | None:
        """Raises LedgerUnavailable."""
        return await self._run(partial(read_ended_key, digest=digest))

    async def _run(self, read: Callable[[sqlite3.Connection], Result]) -> Result:
        try:
            return await run_on_thread(self._database, read)
        except sqlite3.Error as error:
            raise LedgerUnavailable from error
