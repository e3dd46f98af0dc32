"""Work on the connection's own thread: look for changes of others, then commit a batch.

Failures of the database are reported, not raised, so that a commit is never taken for a failure
because of what came after it.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

import aiosqlite

from gateway.ledger.sqlite.batch import Item, NotPendingError, commit_requests
from gateway.ledger.sqlite.files import FileWatch
from gateway.ledger.sqlite.reasons import primary_code
from gateway.ledger.sqlite.serving.changes import ChangeFeed
from gateway.ledger.sqlite.serving.memory import Snapshot
from gateway.ledger.sqlite.serving.wal import WalKeeper

Result = TypeVar("Result")

ROWS_PER_CHUNK: Final = 64
"""A parameter of aiosqlite's cursors, which are not used."""

_OUT_OF_ORDER: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_READONLY,
    }
)
"""Errors that are not the batch's fault: it may work later."""

ITEM_ERRORS: Final = (
    sqlite3.Error,
    NotPendingError,
    OverflowError,
    UnicodeError,
    LookupError,
    TypeError,
    ValueError,
)
"""Errors that a bad item can raise: a constraint, a number or text that SQLite cannot store, or a
bug of ours that only this item brings out."""


@dataclass(slots=True)
class Report:
    """The result; items in neither list were not tried, or may be tried again."""

    polled: bool = False
    """True if other connections' commits were looked for; `snapshot` is what they changed."""
    snapshot: Snapshot | None = None
    balances_nano: dict[int, int] = field(default_factory=dict)
    spent_nano: dict[str, int] = field(default_factory=dict)
    done: list[Item] = field(default_factory=list)
    refused: list[tuple[Item, Exception]] = field(default_factory=list)
    unavailable: sqlite3.Error | None = None
    wal_bytes: int | None = None


@asynccontextmanager
async def open_on_thread(
    connector: Callable[[], sqlite3.Connection],
) -> AsyncIterator[aiosqlite.Connection]:
    """Open a connection with a thread of its own, and end both. Raises what `connector` raises."""
    database = aiosqlite.Connection(connector, ROWS_PER_CHUNK)
    try:
        async with database:
            yield database
    finally:
        # After a failure aiosqlite does not wait, and the thread would report to a closed loop.
        thread = database._thread  # noqa: SLF001
        if thread.is_alive():
            await asyncio.to_thread(thread.join)


async def run_on_thread(
    database: aiosqlite.Connection, function: Callable[[sqlite3.Connection], Result]
) -> Result:
    """Run a whole function on the connection's own thread.

    aiosqlite offers only single statements, and a transaction of ten statements would queue ten
    times behind a busy event loop. Its `_execute` is the only way to pass a function.
    """
    result = await database._execute(function, database._conn)  # noqa: SLF001
    return cast("Result", result)


def poll_and_commit(
    connection: sqlite3.Connection,
    feed: ChangeFeed | None,
    items: Sequence[Item],
    now_ms: int,
    *,
    wal: WalKeeper | None = None,
    files: FileWatch | None = None,
) -> Report:
    """Poll `feed` if given, then commit the items together, or one by one if one is bad.

    Nothing is done while `files` are lost.
    """
    report = Report()
    try:
        if files is not None:
            files.check()
        if wal is not None:
            report.wal_bytes = wal.look_after(connection, idle=not items)
        if feed is not None:
            report.snapshot = feed.poll(connection)
            report.polled = True
    except sqlite3.Error as error:
        report.unavailable = error
        return report
    if items and not _commit(connection, items, now_ms, report) and len(items) > 1:
        report.refused.clear()
        for item in items:
            if report.unavailable is None:
                _commit(connection, [item], now_ms, report)
    return report


def _commit(
    connection: sqlite3.Connection, items: Sequence[Item], now_ms: int, report: Report
) -> bool:
    """Commit and report; return False if the items should be retried one by one."""
    try:
        committed = commit_requests(connection, items, now_ms)
    except ITEM_ERRORS as error:
        if isinstance(error, sqlite3.Error) and _is_out_of_order(error):
            report.unavailable = error
            return True
        report.refused.extend((item, error) for item in items)
        return False
    report.balances_nano.update(committed.balances_nano)
    report.spent_nano.update(committed.spent_nano)
    report.done.extend(items)
    return True


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another process's transaction was in the way."""
    return primary_code(error) == sqlite3.SQLITE_BUSY


def _is_out_of_order(error: sqlite3.Error) -> bool:
    return primary_code(error) in _OUT_OF_ORDER
