"""The two connections of a serving process: the writer's on a thread of ours, the reader's by aiosqlite.

And what the writer's tells of the commits of other processes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sqlite3
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

import aiosqlite

from gateway.base.errors import LedgerUnavailable
from gateway.ledger.serving.memory import Snapshot
from gateway.ledger.sql.database import Rows, Values
from gateway.ledger.sql.rows import SQL, Lookups, read_all, read_changed
from gateway.ledger.sqlite.files import explain
from gateway.ledger.sqlite.schema import BUSY_MS
from gateway.ledger.sqlite.statements import transaction

log = logging.getLogger("gateway.ledger")

Result = TypeVar("Result")


class ConnectionThread:
    """A thread that owns a connection and runs whole functions on it, one after the other.

    aiosqlite offers single statements, each with a future and a turn of the event loop. A transaction
    of ten would queue ten times behind a busy loop, while others wait for its lock.
    """

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        self._connector = connector
        self._opened = _Wait[None]()
        self._reports = _Reports()
        self._work: SimpleQueue[Callable[[sqlite3.Connection], None] | None] = SimpleQueue()
        # No daemon: Python waits at its end for the commit that is under way.
        self._thread = threading.Thread(target=self._run, name="ledger")
        self._thread.start()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, connector: Callable[[], sqlite3.Connection]
    ) -> AsyncIterator[ConnectionThread]:
        """Open a connection, and end it and its thread. Raises what `connector` raises."""
        thread = cls(connector)
        try:
            await thread._opened.future
            yield thread
        finally:
            await thread.close()

    def start(
        self,
        function: Callable[[sqlite3.Connection], Result],
        report: Callable[[Result | BaseException], None],
    ) -> None:
        """Run a function behind those before it; the loop then calls `report`, once.

        `report` gets its result or exception. A queued function is never dropped: if nobody waits for it
        any more, its commit must still not be lost.
        """
        self._work.put(partial(self._do, function, report))

    async def run(self, function: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run a function; return its result or raise its exception."""
        wait = _Wait[Result]()
        self.start(function, wait.end)
        return await wait.future

    async def close(self) -> None:
        """End the thread behind all that it was given, while the loop can still take its reports."""
        self._work.put(None)
        await asyncio.to_thread(self._thread.join)
        self._reports.close()

    def _run(self) -> None:
        try:
            connection = self._connector()
        except BaseException as error:  # noqa: BLE001 - it is reported
            self._reports.tell(self._opened.end, error)
            return
        with closing(connection):
            self._reports.tell(self._opened.end, None)
            while (work := self._work.get()) is not None:
                work(connection)

    def _do(
        self,
        function: Callable[[sqlite3.Connection], Result],
        report: Callable[[Result | BaseException], None],
        connection: sqlite3.Connection,
    ) -> None:
        result: Result | BaseException
        try:
            result = function(connection)
        except BaseException as error:  # noqa: BLE001 - it is reported
            result = error
        self._reports.tell(report, result)


class _Reports:
    """Calls that a thread leaves to the event loop, which are made in their order.

    `call_soon_threadsafe` makes a handle for each, and reads the loop's pipe until that fails: a
    system call and an exception more for each commit.
    """

    def __init__(self) -> None:
        self._told: deque[Callable[[], None]] = deque()
        self._loop = asyncio.get_running_loop()
        self._reader, self._writer = socket.socketpair()
        for end in (self._reader, self._writer):
            end.setblocking(False)
        self._loop.add_reader(self._reader.fileno(), self._take)

    def tell(self, report: Callable[[Result], None], result: Result) -> None:
        """Let the loop call `report`; from the thread."""
        self._told.append(partial(report, result))
        with suppress(BlockingIOError):  # it is full, so the loop has yet to wake up
            self._writer.send(b"\0")

    def close(self) -> None:
        """Make the calls that are left, once the thread has ended."""
        self._loop.remove_reader(self._reader.fileno())
        self._make_calls()
        self._reader.close()
        self._writer.close()

    def _take(self) -> None:
        # Before the calls, so that a report during them wakes the loop again.
        self._reader.recv(_WAKE_BYTES)
        self._make_calls()

    def _make_calls(self) -> None:
        while self._told:
            try:
                self._told.popleft()()
            except Exception:
                log.exception("what a ledger's thread reported could not be taken")


_WAKE_BYTES: Final = 4096
"""Wake-ups that are taken at a time; those that are left wake the loop once more."""


class _Wait(Generic[Result]):
    """A future that ends with what a thread reports."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def end(self, result: Result | BaseException) -> None:
        if self.future.done():  # its task was cancelled
            return
        if isinstance(result, BaseException):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


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
        connecting = aiosqlite.connect(_address(path), uri=True, isolation_level=None)
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

    async def _fetch(self, sql: str, values: Values) -> Rows:
        try:
            return list(await self._database.execute_fetchall(sql, values))
        except sqlite3.Error as error:
            raise LedgerUnavailable from error


def _address(path: Path) -> str:
    return path.absolute().as_uri() + "?mode=ro"


_CHANGED: Final = "SELECT kind, id FROM changes WHERE seq > ? AND seq <= ?"


class ChangeFeed:
    """Changes that other processes commit: `PRAGMA data_version` tells of them, `changes` names them.

    Reads `changes` from where it last stopped, on the connection's thread.
    """

    def __init__(self) -> None:
        self._data_version = -1
        self._seq = 0

    def read_all(self, connection: sqlite3.Connection, now_ms: int) -> Snapshot:
        """Read all accounts and live keys at the start, and clear `changes`, of no use before it."""
        with transaction(connection):
            self._data_version = _read_data_version(connection)
            self._seq = _read_last_seq(connection)
            snapshot = read_all(connection, now_ms)
            connection.execute("DELETE FROM changes")
        return snapshot

    def poll(self, connection: sqlite3.Connection) -> Snapshot | None:
        """Return the accounts, budgets and keys that other processes changed since the last call, if any.

        The version is read before the rows: a commit in between is read and assigned twice rather
        than missed.
        """
        version = _read_data_version(connection)
        if version == self._data_version:
            return None
        seq = max(self._seq, _read_last_seq(connection))
        snapshot = read_changed(
            connection, connection.execute(_CHANGED, (self._seq, seq)).fetchall()
        )
        self._data_version, self._seq = version, seq
        return snapshot


def _read_data_version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def _read_last_seq(connection: sqlite3.Connection) -> int:
    (seq,) = connection.execute("SELECT coalesce(max(seq), 0) FROM changes").fetchone()
    return int(seq)
