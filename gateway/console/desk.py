"""The books on a thread of their own, for the serving process: one visit after the other.

Each visit is short: a long list is read in pages, so nobody waits behind it and the write-ahead
log can be cut back in between. When somebody else keeps the database locked, a visit waits for
that about a second from when it was asked for, so those behind it do not wait one after the other.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from gateway.ledger.book import Actor
from gateway.ledger.books import Books

T = TypeVar("T")

PATIENCE_MS: Final = 1000
LEAST_MS: Final = 100
"""Also of a visit that stood in line for long: the server's own commits take a few."""


class Desk:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._books: Books | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="console-books")

    async def run(self, actor: Actor, function: Callable[[Books], T]) -> T:
        """Raises LedgerError, and whatever the function raises."""
        loop = asyncio.get_running_loop()
        asked = time.monotonic()
        return await loop.run_in_executor(self._thread, self._visit, actor, asked, function)

    async def close(self) -> None:
        """Wait for the visit under way, and close the books."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._close_books)
        self._thread.shutdown()

    def _visit(self, actor: Actor, asked: float, function: Callable[[Books], T]) -> T:
        if self._books is None:
            self._books = Books.open(self._path)
        stood_ms = round((time.monotonic() - asked) * 1000)
        self._books.wait_for_others(max(PATIENCE_MS - stood_ms, LEAST_MS))
        self._books.actor = actor
        return function(self._books)

    def _close_books(self) -> None:
        if self._books is not None:
            self._books.close()
