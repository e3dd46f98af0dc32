"""The ledger of one serving process in one SQLite file."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import aiosqlite

from gateway.errors import InternalError, LedgerUnavailable
from gateway.ledger.audit import run_audit
from gateway.ledger.base import (
    COMMIT_SECONDS,
    Account,
    Admission,
    Hold,
    Key,
    LedgerError,
    LedgerMismatch,
    Receipt,
    Settlement,
    Spent,
)
from gateway.ledger.changes import ChangeFeed
from gateway.ledger.lock import take_lock
from gateway.ledger.memory import Memory, Snapshot, raise_hold, take_hold
from gateway.ledger.reader import Reader, make_pending_receipt
from gateway.ledger.recovery import interrupt_pending
from gateway.ledger.schema import connect, set_busy_timeout
from gateway.ledger.thread import ROWS_PER_CHUNK, run_on_thread
from gateway.ledger.wal import WalKeeper
from gateway.ledger.writer import BUSY_MS, Writer
from gateway.tasks import spawn
from gateway.times import unix_ms

log = logging.getLogger("gateway.ledger")


class SqliteLedger:
    """Implements `base.Ledger`; made by `open`."""

    def __init__(self, memory: Memory, writer: Writer, reader: Reader) -> None:
        self._memory = memory
        self._writer = writer
        self._reader = reader
        self._loop = asyncio.get_running_loop()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        path: Path,
        *,
        create: bool = True,
        clock: Callable[[], int] = unix_ms,
        commit_seconds: float = COMMIT_SECONDS,
    ) -> AsyncIterator[SqliteLedger]:
        """Lock, open, recover, audit and load; at the end commit what is queued and close.

        Raises:
            LedgerLocked: another process serves from this database.
            LedgerMismatch: the audit since the last checkpoint failed.
            LedgerError: the file cannot be used; the text says why.
        """
        lock = take_lock(path)
        try:
            connector = partial(connect, path, create=create, is_locked=True)
            async with aiosqlite.Connection(connector, ROWS_PER_CHUNK) as database:
                memory, feed = Memory(), ChangeFeed()
                memory.apply(await _load(database, feed, path, clock))
                writer = Writer(
                    database,
                    memory,
                    feed,
                    WalKeeper(path),
                    clock=clock,
                    commit_seconds=commit_seconds,
                )
                async with Reader.open(path) as reader, _running(writer):
                    yield cls(memory, writer, reader)
        finally:
            os.close(lock)

    async def wait_ended(self) -> None:
        """Return when nothing will be committed any more. Unasked, that is a bug of ours."""
        await self._writer.ended.wait()

    @property
    def writable(self) -> bool:
        return self._writer.writable

    def find_key(self, digest: bytes) -> Key | None:
        return self._memory.find_key(digest)

    def accounts(self) -> Iterable[Account]:
        return self._memory.accounts()

    def hold(self, key: Key, admission: Admission) -> Hold:
        if not self._writer.writable:
            raise LedgerUnavailable
        hold = take_hold(key, admission)
        self._writer.add(hold)
        return hold

    async def wait_admitted(self, hold: Hold) -> None:
        if hold.recorded:
            return
        if hold.resolved:  # without a row: the ledger refused it
            raise InternalError
        if self._writer.closed:
            raise LedgerUnavailable(should_retry=False)
        if hold.admitted is None or hold.admitted.cancelled():
            hold.admitted = self._loop.create_future()
        hold.waiting_since_seconds = self._loop.time()
        self._writer.hurry()
        await hold.admitted

    def settle(self, hold: Hold, settlement: Settlement) -> asyncio.Future[None]:
        if hold.settled is None:
            hold.settled = self._loop.create_future()
            hold.settlement = settlement
            hold.waiting_since_seconds = self._loop.time()
            raise_hold(hold, settlement.cost_nano)
            if self._writer.closed:
                hold.settled.set_exception(LedgerUnavailable(should_retry=False))
                hold.settled.exception()  # not all who settle wait for it
            else:
                self._writer.add(hold)
                self._writer.hurry()
        return hold.settled

    async def refresh(self) -> None:
        await self._writer.refresh()

    async def read_receipt(self, request_id: str) -> Receipt | None:
        hold = self._writer.find(request_id)
        if hold is not None and hold.settled is not None:
            await asyncio.wait((hold.settled,))
        if hold is not None and not hold.resolved:
            return make_pending_receipt(hold)
        return await self._reader.read_receipt(request_id)

    async def read_spent(self, key: Key, today: int) -> Spent:
        return await self._reader.read_spent(key, today)


@asynccontextmanager
async def _running(writer: Writer) -> AsyncIterator[None]:
    task = spawn(writer.run(), name="ledger-writer")
    try:
        yield
    finally:
        writer.close()
        await asyncio.wait((task,))


async def _load(
    database: aiosqlite.Connection, feed: ChangeFeed, path: Path, clock: Callable[[], int]
) -> Snapshot:
    try:
        return await run_on_thread(
            database, partial(_recover_and_read, feed=feed, path=path, now_ms=clock())
        )
    except sqlite3.Error as error:
        raise LedgerError(f"{path}: {error}") from error


def _recover_and_read(
    connection: sqlite3.Connection, *, feed: ChangeFeed, path: Path, now_ms: int
) -> Snapshot:
    """Resolve what a crash left, prove the books, read all; only for who has the lock."""
    interrupted = interrupt_pending(connection, now_ms)
    report = run_audit(connection, full=False, now_ms=now_ms)
    if interrupted:
        log.warning(
            "requests in flight when the gateway last died: %d, now interrupted and charged 0;"
            " `audit` lists them",
            interrupted,
        )
    if not report.ok:
        raise LedgerMismatch(f"{path}: the books do not add up: {'; '.join(report.problems)}")
    snapshot = feed.read_all(connection)
    set_busy_timeout(connection, BUSY_MS)
    return snapshot
