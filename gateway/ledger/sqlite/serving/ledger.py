"""The ledger of one serving process in one SQLite file."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import aiosqlite

from gateway.errors import InternalError, LedgerUnavailable
from gateway.ledger.base import (
    COMMIT_SECONDS,
    Admission,
    Hold,
    Key,
    Receipt,
    Settlement,
)
from gateway.ledger.serving.memory import (
    Memory,
    QueuedHold,
    Snapshot,
    make_pending_receipt,
    raise_hold,
    take_hold,
)
from gateway.ledger.serving.observer import Observer
from gateway.ledger.serving.progress import Progress
from gateway.ledger.serving.queue import fail_wait
from gateway.ledger.serving.writer import Writer
from gateway.ledger.sqlite.files import FileWatch, marked, take_lock
from gateway.ledger.sqlite.reasons import explain
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving.changes import ChangeFeed
from gateway.ledger.sqlite.serving.reader import ReceiptReader
from gateway.ledger.sqlite.serving.recovery import recover_and_read
from gateway.ledger.sqlite.serving.store import Store
from gateway.ledger.sqlite.serving.thread import open_on_thread, run_on_thread
from gateway.ledger.sqlite.serving.wal import WalKeeper
from gateway.times import unix_ms

log = logging.getLogger("gateway.ledger")


class SqliteLedger:
    """Implements `base.Ledger`; made by `open`."""

    def __init__(
        self,
        memory: Memory,
        writer: Writer,
        reader: ReceiptReader,
        observer: Observer,
        wal: WalKeeper,
    ) -> None:
        self._wal = wal
        self._writer = writer
        self._queue = writer.queue
        self._health = writer.health
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self.find_key = memory.find_key
        self.accounts = memory.accounts
        self.budgets = memory.budgets
        self.refresh = writer.refresh
        self.read_spent = reader.read_spent
        self.read_ended_key = reader.read_ended_key
        self.note_refusal = observer.note_refusal
        self.note_upstream_call = observer.note_upstream_call

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
                    store = Store(database, feed, wal, watch, clock=clock)
                    writer = Writer(store, memory, note_commit, commit_seconds=commit_seconds)
                    observer = Observer(store, clock)
                    async with ReceiptReader.open(path) as reader, _running(writer, observer):
                        yield cls(memory, writer, reader, observer, wal)
        finally:
            progress.end()
            os.close(lock)

    async def wait_ended(self) -> None:
        """Return when nothing will be committed any more; unless closed, that is a bug of ours."""
        await self._writer.ended.wait()

    @property
    def writable(self) -> bool:
        return self._health.writable

    @property
    def open_holds(self) -> int:
        return self._queue.open_holds

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
        """Do nothing: no other process serves from this ledger."""

    async def wait_admitted(self, hold: Hold) -> None:
        assert isinstance(hold, QueuedHold)
        if hold.recorded:
            return
        if hold.resolved:  # resolved without a row: the ledger refused it
            raise InternalError
        if self._writer.ended.is_set():
            raise LedgerUnavailable(should_retry=False)
        if hold.admitted is None or hold.admitted.cancelled():
            hold.admitted = self._loop.create_future()
        hold.waiting_since_seconds = self._loop.time()
        self._queue.ripen_all()  # a commit is due, and the rows of others cost it little
        self._writer.add(hold)
        await hold.admitted

    def settle(self, hold: Hold, settlement: Settlement) -> asyncio.Future[None]:
        assert isinstance(hold, QueuedHold)
        if hold.settled is None:
            hold.settled = self._loop.create_future()
            hold.settlement = settlement
            hold.waiting_since_seconds = self._loop.time()
            raise_hold(hold, settlement.cost_nano)
            if self._writer.ended.is_set():
                fail_wait(hold.settled, LedgerUnavailable(should_retry=False))
            else:
                self._writer.add(hold)
        return hold.settled

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        if not hold.resolved:
            raise_hold(hold, amount_nano)

    async def read_receipt(self, request_id: str) -> Receipt | None:
        hold = self._queue.find(request_id)
        if hold is not None and hold.settled is not None:
            await asyncio.wait((hold.settled,))
        if hold is not None and not hold.resolved:
            return make_pending_receipt(hold)
        return await self._reader.read_receipt(request_id)


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
