"""A serving ledger in one SQLite file: lock it, recover, read everything into memory, serve.

Receipts and spending are read on a connection beside the writer's.

Requests that were in flight when the gateway died become `interrupted`: nothing is charged, nothing
is held any more, and the operator may settle each by a correction. Their status stays unknown,
because nobody knows what the caller got; `ended_ms` is when they were found. Only a process that
has the lock may do this: otherwise pending means in flight.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import aiosqlite

from gateway.base.errors import LedgerUnavailable
from gateway.base.progress import Progress
from gateway.base.times import unix_ms
from gateway.ledger.base import COMMIT_SECONDS
from gateway.ledger.records import LedgerLocked, LedgerMismatch
from gateway.ledger.serving.ledger import ServingLedger, reporting
from gateway.ledger.serving.memory import Memory, Snapshot
from gateway.ledger.serving.writer import Writer
from gateway.ledger.sql.database import Rows, Values
from gateway.ledger.sql.rows import SQL, Lookups
from gateway.ledger.sqlite.books import run_audit
from gateway.ledger.sqlite.faults import explain
from gateway.ledger.sqlite.files import FileWatch, marked, take_lock
from gateway.ledger.sqlite.folds import fail_pending, fold
from gateway.ledger.sqlite.polls import ChangeFeed, WalKeeper
from gateway.ledger.sqlite.schema import BUSY_MS, connect, find_address, set_busy_timeout
from gateway.ledger.sqlite.statements import transaction
from gateway.ledger.sqlite.store import SqliteStore
from gateway.ledger.sqlite.thread import ConnectionThread
from gateway.ledger.sqlite.upgrades import describe_upgrade

log = logging.getLogger("gateway.ledger")

SERVING_BUSY_MS: Final = 5
"""SQLite's own wait for another process's transaction. SQLite backs off to 100 ms, and an operator's
script that writes in a loop would then keep the server out for seconds. So the wait is short, and
the writer retries at once."""
CACHE_KIB: Final = 512
"""Pages that the writer keeps. It needs the last ones of each table; SQLite's 2 MiB would all be filled."""
WAIT_SECONDS: Final = 0.1
"""Seconds between two looks of a start at whether an upgrade by a command has ended: upgrades take longer, so
the start is hardly delayed."""

_INTERRUPT: Final = """
    UPDATE requests SET state = 'voided', outcome = 'interrupted', ended_ms = max(started_ms, ?)
    WHERE state = 'pending'
"""


@asynccontextmanager
async def open_sqlite(
    path: Path,
    *,
    clock: Callable[[], int] = unix_ms,
    commit_seconds: float = COMMIT_SECONDS,
    connector: Callable[..., sqlite3.Connection] = connect,
    tell: Callable[[str], None] = log.info,
) -> AsyncIterator[ServingLedger]:
    """Lock, open, audit, recover and load; at the end commit the queue and close.

    `connector` is called like `schema.connect`, on the thread of the writer's connection.

    Raises:
        LedgerLocked: another process serves from this database.
        LedgerMismatch: the audit since the last checkpoint failed.
        LedgerError: the file cannot be used; the text says why.
    """
    async with AsyncExitStack() as stack:
        async with reporting(tell) as progress:
            lock = await _wait_for_lock(path, progress)
            # Undone last: whoever gets the lock treats pending requests as those of a crash.
            stack.callback(os.close, lock)
            opener = partial(connector, path, create=True, is_locked=True, progress=progress)
            thread = await stack.enter_async_context(ConnectionThread.open(opener))
            stack.enter_context(marked(lock, path))  # the opening has made the files that it names
            memory, feed = Memory(clock), ChangeFeed()
            with _uncollected():
                recover = partial(recover_and_read, feed=feed, path=path, now_ms=clock())
                memory.apply(await thread.run(partial(recover, progress=progress)))
        store = SqliteStore(
            thread, feed, WalKeeper(path), FileWatch(path, serving_pid=os.getpid()), clock=clock
        )
        reader = await stack.enter_async_context(SqliteReader.open(path))
        writer = Writer(store, memory, commit_seconds=commit_seconds)
        ledger = ServingLedger(store, memory, reader, clock, writer)
        stack.push_async_callback(ledger.close)
        yield ledger


async def _wait_for_lock(path: Path, progress: Progress) -> int:
    """Lock the database, as soon as a command that upgrades it has ended. Raises LedgerError."""
    waits = False
    while True:
        try:
            return take_lock(path)
        except LedgerLocked:
            upgrade = describe_upgrade(path)
            if upgrade is None:
                raise
            if not waits:
                progress(f"waiting, as {upgrade}")
                waits = True
        await asyncio.sleep(WAIT_SECONDS)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Stop the garbage collector, which takes as long as reading: nothing that is read is garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def recover_and_read(
    connection: sqlite3.Connection, *, feed: ChangeFeed, path: Path, now_ms: int, progress: Progress
) -> Snapshot:
    """Audit, void what a crash left pending, and read everything. Needs the lock.

    Nothing is written to a file that is damaged or whose books do not add up. `progress` is told
    of each step.
    """
    try:
        progress("proving the books since the last audit")
        report = run_audit(connection, full=False, now_ms=now_ms)
        if not report.ok:
            raise LedgerMismatch(f"{path}: the books do not add up: {'; '.join(report.problems)}")
        progress("voiding the requests of a crash")
        if interrupted := interrupt_pending(connection, now_ms):
            log.warning(
                "requests in flight when the gateway last died: %d, now interrupted and charged 0;"
                " `audit` lists them",
                interrupted,
            )
        fold(connection)
        progress("reading accounts, budgets and keys")
        snapshot = feed.read_all(connection, now_ms)
        set_busy_timeout(connection, SERVING_BUSY_MS)
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    except sqlite3.Error as error:
        raise explain(path, error) from error
    return snapshot


def interrupt_pending(connection: sqlite3.Connection, now_ms: int) -> int:
    """Void all pending requests in one transaction; return how many there were."""
    with transaction(connection):
        # Before the update, after which nothing is pending any more.
        fail_pending(connection, now_ms)
        return connection.execute(_INTERRUPT, (now_ms,)).rowcount


class SqliteReader(Lookups):
    """Reads beside the writer, one after the other; made by `open`.

    A long read keeps the write-ahead log from being cut back, so all rows are fetched at once.
    """

    # It only reads and cannot fold, so it adds the charges that are not in the sums yet.
    _SPENT = SQL["spent"].format(
        daily="(SELECT account_id, day, key_id, cost_nano FROM daily UNION ALL"
        " SELECT account_id, ended_ms / 86400000, key_id, cost_nano FROM unfolded)"
    )

    def __init__(self, database: aiosqlite.Connection) -> None:
        self._database = database

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path) -> AsyncIterator[SqliteReader]:
        address = find_address(path, "ro")
        connecting = aiosqlite.connect(address, uri=True, isolation_level=None)
        try:
            database = await connecting
        except sqlite3.Error as error:
            raise explain(path, error) from error
        try:
            # A recovery of the log after a crash locks readers out for a moment.
            await database.execute_fetchall(f"PRAGMA busy_timeout = {BUSY_MS}")
            yield cls(database)
        finally:
            await database.close()

    async def fetch(self, sql: str, values: Values) -> Rows:
        try:
            return list(await self._database.execute_fetchall(sql, values))
        except sqlite3.Error as error:
            raise LedgerUnavailable from error
