"""The ledger of one serving process in one SQLite file."""

from __future__ import annotations

import gc
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import aiosqlite

from gateway.errors import LedgerUnavailable
from gateway.ledger.base import COMMIT_SECONDS, Admission, Hold, Key
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.serving.memory import Memory, QueuedHold, Snapshot, take_hold
from gateway.ledger.serving.observer import Observer
from gateway.ledger.serving.progress import Progress
from gateway.ledger.serving.writer import Writer
from gateway.ledger.sqlite.files import FileWatch, explain, marked, take_lock
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving.changes import ChangeFeed
from gateway.ledger.sqlite.serving.reader import SqliteReader
from gateway.ledger.sqlite.serving.recovery import recover_and_read
from gateway.ledger.sqlite.serving.store import SqliteStore
from gateway.ledger.sqlite.serving.thread import open_on_thread, run_on_thread
from gateway.ledger.sqlite.serving.wal import WalKeeper
from gateway.times import unix_ms

log = logging.getLogger("gateway.ledger")


class SqliteLedger(ServingLedger):
    """Implements `base.Ledger`; made by `open`."""

    def __init__(
        self,
        memory: Memory,
        writer: Writer,
        reader: SqliteReader,
        observer: Observer,
        *,
        clock: Callable[[], int],
        wal: WalKeeper,
    ) -> None:
        super().__init__(memory, writer, reader, observer, clock=clock)
        self._wal = wal

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        *,
        create: bool = True,
        clock: Callable[[], int] = unix_ms,
        commit_seconds: float = COMMIT_SECONDS,
        connector: Callable[..., sqlite3.Connection] = connect,
        tell: Callable[[str], None] = log.info,
        note_commit: Callable[[int, float], None] | None = None,
    ) -> AsyncIterator[SqliteLedger]:
        """Lock, open, audit, recover and load; at the end commit the queue and close.

        `connector` is called like `schema.connect`, on the thread of the writer's connection.

        Raises:
            LedgerLocked: another process serves from this database.
            LedgerMismatch: the audit since the last checkpoint failed.
            LedgerError: the file cannot be used; the text says why.
        """
        lock = take_lock(path)
        progress = Progress(tell)
        try:
            opener = partial(connector, path, create=create, is_locked=True, begin=progress.begin)
            async with open_on_thread(opener) as database:
                with marked(lock, path):
                    memory, feed = Memory(clock), ChangeFeed()
                    with _uncollected():
                        memory.apply(await _load(database, feed, path, clock, progress))
                    progress.end()
                    watch = FileWatch(path, serving_pid=os.getpid())
                    wal = WalKeeper(path)
                    store = SqliteStore(database, feed, wal, watch, clock=clock)
                    writer = Writer(store, memory, note_commit, commit_seconds=commit_seconds)
                    observer = Observer(store, clock)
                    async with SqliteReader.open(path) as reader, _running(writer, observer):
                        yield cls(memory, writer, reader, observer, clock=clock, wal=wal)
        finally:
            progress.end()
            os.close(lock)

    @property
    def log_bytes(self) -> int:
        return self._wal.size_bytes

    def hold(self, key: Key, admission: Admission) -> QueuedHold:
        if not self._health.writable:
            raise LedgerUnavailable
        hold = take_hold(key, admission)
        self._writer.linger(hold)
        return hold

    async def confirm(self, hold: Hold) -> None:
        """Wait for the row, unless a commit has just worked: then its end may be one with the row.

        No other process serves from this ledger. What a row says was checked by `hold`, so a disk that
        failed a moment ago is all that can refuse it.
        """
        if not self._health.is_proven(self._loop.time()):
            await super().confirm(hold)


@asynccontextmanager
async def _running(writer: Writer, observer: Observer) -> AsyncIterator[None]:
    try:
        yield
    finally:
        writer.close()
        await writer.ended.wait()
        await observer.close()


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


async def _load(
    database: aiosqlite.Connection,
    feed: ChangeFeed,
    path: Path,
    clock: Callable[[], int],
    progress: Progress,
) -> Snapshot:
    try:
        return await run_on_thread(
            database,
            partial(recover_and_read, feed=feed, path=path, now_ms=clock(), begin=progress.begin),
        )
    except sqlite3.Error as error:
        raise explain(path, error) from error
