"""The ledger of one serving process in one SQLite file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import aiosqlite

from gateway.errors import InternalError, LedgerUnavailable
from gateway.ledger.audit import run_audit
from gateway.ledger.base import (
    COMMIT_SECONDS,
    Account,
    Admission,
    Hold,
    Key,
    LedgerMismatch,
    Settlement,
    unix_ms,
)
from gateway.ledger.changes import ChangeFeed
from gateway.ledger.lock import take_lock
from gateway.ledger.memory import Memory, Snapshot, raise_hold, take_hold
from gateway.ledger.schema import connect, set_busy_timeout
from gateway.ledger.writer import BUSY_MS, Writer, run_on_thread
from gateway.tasks import spawn

ROWS_PER_CHUNK: Final = 64
"""Asked for by aiosqlite, whose cursors are not used."""


class SqliteLedger:
    """Implements `base.Ledger`; made by `open`."""

    def __init__(self, memory: Memory, writer: Writer) -> None:
        self._memory = memory
        self._writer = writer
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
        """Lock, open, audit and load; at the end commit what is queued and close.

        Raises:
            LedgerLocked: another process serves from this database.
            LedgerMismatch: the audit since the last checkpoint failed.
            LedgerError: the file cannot be used; the text says why.
        """
        lock = take_lock(path)
        try:
            connector = partial(connect, path, create=create)
            async with aiosqlite.Connection(connector, ROWS_PER_CHUNK) as database:
                memory, feed = Memory(), ChangeFeed()
                memory.apply(await _load(database, feed, path, clock))
                writer = Writer(database, memory, feed, clock=clock, commit_seconds=commit_seconds)
                task = spawn(writer.run(), name="ledger-writer")
                try:
                    yield cls(memory, writer)
                finally:
                    writer.close()
                    await asyncio.wait((task,))
        finally:
            os.close(lock)

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
            else:
                self._writer.add(hold)
                self._writer.hurry()
        return hold.settled


async def _load(
    database: aiosqlite.Connection, feed: ChangeFeed, path: Path, clock: Callable[[], int]
) -> Snapshot:
    report = await run_on_thread(database, partial(run_audit, full=False, now_ms=clock()))
    if not report.ok:
        raise LedgerMismatch(f"{path}: the audit failed: {'; '.join(report.problems)}")
    snapshot = await run_on_thread(database, feed.read_all)
    await run_on_thread(database, partial(set_busy_timeout, busy_ms=BUSY_MS))
    return snapshot
