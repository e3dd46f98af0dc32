"""Receipts, spending and keys that ended, read on a connection beside the writer's.

A long read keeps the write-ahead log from being cut back, so all rows are fetched at once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiosqlite

from gateway.errors import LedgerUnavailable
from gateway.ledger.sql.connection import Connection
from gateway.ledger.sql.lookups import Lookups, Result
from gateway.ledger.sqlite.schema import connect_reader
from gateway.ledger.sqlite.serving.thread import open_on_thread, run_on_thread


class SqliteReader(Lookups):
    """Reads one after the other; made by `open`."""

    def __init__(self, database: aiosqlite.Connection) -> None:
        self._database = database

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path) -> AsyncIterator[SqliteReader]:
        connector = partial(connect_reader, path)
        async with open_on_thread(connector) as database:
            yield cls(database)

    async def _run(self, read: Callable[[Connection], Result]) -> Result:
        try:
            return await run_on_thread(self._database, read)
        except sqlite3.Error as error:
            raise LedgerUnavailable from error
