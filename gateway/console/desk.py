"""The books on a thread of their own, for the serving process: one visit after the other.

Each visit is short: a long list is read in pages, so nobody waits behind it and the write-ahead
log can be cut back in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from gateway.ledger.book import Actor
from gateway.ledger.books import Books

T = TypeVar("T")


class Desk:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._books: Books | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="console-books")

    async def run(self, actor: Actor, function: Callable[[Books], T]) -> T:
        """Raises LedgerError, and whatever the function raises."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._visit, actor, function)

    async def close(self) -> None:
        """Wait for the visit under way, and close the books."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._close_books)
        self._thread.shutdown()

    def _visit(self, actor: Actor, function: Callable[[Books], T]) -> T:
        if self._books is None:
            self._books = Books.open(self._path)
        self._books.actor = actor
        return function(self._books)

    def _close_books(self) -> None:
        if self._books is not None:
            self._books.close()
