"""Receipts, spending and keys that ended, read on a connection beside the writer's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import psycopg

from gateway.errors import LedgerUnavailable
from gateway.ledger.base import COMMIT_SECONDS
from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.connection import Connection
from gateway.ledger.sql.lookups import Lookups, Result

AGAIN_SECONDS: Final = 1
"""A connection that ended before is noticed at once; a read that fails later is not repeated."""


class PostgresReader(Lookups):
    """Reads one after the other on a thread; connects when it first reads, and after a break.

    A read that hangs is broken off, so that those behind it go on.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: Session | None = None
        self._thread = ThreadPoolExecutor(1, "ledger-reader")

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    async def _run(self, read: Callable[[Connection], Result]) -> Result:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(COMMIT_SECONDS):
                return await loop.run_in_executor(self._thread, self._read, read)
        except (psycopg.Error, LedgerError) as error:
            raise LedgerUnavailable from error
        except TimeoutError as error:
            if self._session is not None:
                self._session.break_off()
            raise LedgerUnavailable from error

    def _read(self, read: Callable[[Connection], Result]) -> Result:
        """Read; a connection from before may have ended with a server that is back by now."""
        begun_seconds = time.monotonic()
        if self._session is not None and not self._session.is_broken:
            try:
                return read(self._session)
            except psycopg.OperationalError:
                self._session.close()
                if time.monotonic() > begun_seconds + AGAIN_SECONDS:
                    raise  # it was broken off: nobody waits any more
        self._session = connect(self._url)
        return read(self._session)

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
