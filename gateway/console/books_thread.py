"""Run functions on the books in a worker thread of the serving process, one after the other.

Functions have to be short: long lists are read in pages, so that others need not wait and the
write-ahead log can be truncated between two of them. If another process keeps the database locked,
a function fails about a second after it was submitted. The time it waited in the queue counts, so
a queue of them does not wait a second each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from gateway.ledger.locations import Location
from gateway.ledger.opening import open_books
from gateway.ledger.records import Actor
from gateway.ledger.sql.books.books import Books

T = TypeVar("T")

LOCK_WAIT_MS: Final = 1000
"""How long a function may wait for the lock, its time in the queue included."""
MIN_LOCK_WAIT_MS: Final = 100
"""The least a function may wait for the lock: the server's own commits hold it for a few ms."""


class BooksThread:
    """One worker thread with its own connection to the books, opened on first use."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._books: Books | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="console-books")

    async def run(self, actor: Actor, function: Callable[[Books], T]) -> T:
        """Run `function` in the thread, as `actor`, and return its result.

        Raises:
            LedgerError: the database is locked, unreadable or full.
            Exception: whatever the function raises.
        """
        loop = asyncio.get_running_loop()
        submitted = time.monotonic()
        return await loop.run_in_executor(self._thread, self._call, actor, submitted, function)

    async def close(self) -> None:
        """Wait for the functions that were submitted, then close the books."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._close_books)
        self._thread.shutdown()

    def _call(self, actor: Actor, submitted: float, function: Callable[[Books], T]) -> T:
        if self._books is None:
            self._books = open_books(self._location)
        queued_ms = round((time.monotonic() - submitted) * 1000)
        self._books.wait_for_others(max(LOCK_WAIT_MS - queued_ms, MIN_LOCK_WAIT_MS))
        self._books.actor = actor
        return function(self._books)

    def _close_books(self) -> None:
        if self._books is not None:
            self._books.close()
