"""Receipts, spending and keys that ended, read on a connection beside the writer's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import psycopg

from gateway.errors import LedgerUnavailable
from gateway.ledger.base import Key, Receipt
from gateway.ledger.errors import LedgerError
from gateway.ledger.key_records import EndedKey
from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.sql.lookups import read_ended_key, read_spent
from gateway.ledger.sql.receipts import read_receipt
from gateway.ledger.usage_records import Spent

Result = TypeVar("Result")


class Reader:
    """Reads one after the other on a thread; connects when it first reads, and after a break."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: Session | None = None
        self._thread = ThreadPoolExecutor(1, "ledger-reader")

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

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    async def _run(self, read: Callable[[Session], Result]) -> Result:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._read, read)
        except (psycopg.Error, LedgerError) as error:
            raise LedgerUnavailable from error

    def _read(self, read: Callable[[Session], Result]) -> Result:
        """Read; a connection from before may have ended with a server that is back by now."""
        if self._session is not None and not self._session.is_broken:
            try:
                return read(self._session)
            except psycopg.OperationalError:
                self._session.close()
        self._session = connect(self._url)
        return read(self._session)

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
