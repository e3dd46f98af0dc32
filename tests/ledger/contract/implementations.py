"""The table of implementations. Only this module of the suite knows what they are."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.ledger import Books, Ledger
from gateway.ledger.sqlite.books.books import SqliteBooks
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from gateway.ledger.sqlite.serving.thread import run_on_thread


@dataclass(frozen=True)
class Implementation:
    """How to open the two contracts, and how to break a ledger where the contract has no call."""

    name: str
    open_ledger: Callable[..., AbstractAsyncContextManager[Ledger]]
    """Takes what `gateway.ledger.open_ledger` takes."""
    open_books: Callable[..., Books]
    """Takes what `gateway.ledger.open_books` takes."""
    fail_commits: Callable[[Ledger], AbstractAsyncContextManager[None]]
    """Let every commit of the serving process fail, inside the context."""
    spoil: Callable[[Path], None]
    """Change a balance without an entry, as no program of ours would."""


@asynccontextmanager
async def _fail_sqlite(ledger: Ledger) -> AsyncIterator[None]:
    assert isinstance(ledger, SqliteLedger)
    await _run(ledger, "PRAGMA query_only = ON")
    try:
        yield
    finally:
        await _run(ledger, "PRAGMA query_only = OFF")


async def _run(ledger: SqliteLedger, sql: str) -> None:
    def run(connection: sqlite3.Connection) -> None:
        connection.execute(sql)

    await run_on_thread(ledger._writer._database, run)


def _spoil_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE accounts SET balance_nano = balance_nano + 1")


IMPLEMENTATIONS: Final = (
    Implementation("sqlite", SqliteLedger.open, SqliteBooks, _fail_sqlite, _spoil_sqlite),
)
