"""A connection that tests can break and hold up, passed to `SqliteLedger.open`."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from gateway.ledger.sqlite.schema import connect

Work = Callable[[sqlite3.Connection], object]

FREEZE_SECONDS = 30.0
"""The longest hang, so that a test that fails can end."""


class Faults:
    """The faults of one ledger's connection: `connect` makes it, for `connector`."""

    def __init__(self) -> None:
        self.failing = False
        self.frozen = threading.Event()
        """Set when a transaction is about to begin and the disk hangs."""
        self._thawed = threading.Event()
        self.thaw = self._thawed.set
        self.thaw()
        self._works: deque[tuple[Work, Future[object]]] = deque()

    def connect(self, path: Path, **options: Any) -> sqlite3.Connection:
        return cast("sqlite3.Connection", _FaultyConnection(connect(path, **options), self))

    @contextmanager
    def fail_commits(self) -> Iterator[None]:
        """Let no transaction begin, as on a disk that was remounted read-only."""
        self.failing = True
        try:
            yield
        finally:
            self.failing = False

    @contextmanager
    def freeze(self) -> Iterator[None]:
        """Let transactions neither work nor fail."""
        self.frozen.clear()
        self._thawed.clear()
        try:
            yield
        finally:
            self.thaw()

    async def run(self, work: Work) -> object:
        """Run a function on the ledger's own connection; the next poll brings it about."""
        done: Future[object] = Future()
        self._works.append((work, done))
        return await asyncio.wrap_future(done)

    async def run_sql(self, sql: str) -> None:
        await self.run(lambda connection: connection.execute(sql).fetchall())

    def before(self, sql: str, connection: sqlite3.Connection) -> None:
        """Do what was ordered, on the connection's thread."""
        while self._works and not connection.in_transaction:
            work, done = self._works.popleft()
            try:
                done.set_result(work(connection))
            except sqlite3.Error as error:
                done.set_exception(error)
        if sql == "BEGIN IMMEDIATE":
            if not self._thawed.is_set():
                self.frozen.set()
                self._thawed.wait(FREEZE_SECONDS)
            if self.failing:
                raise make_error(sqlite3.SQLITE_READONLY)


class _FaultyConnection:
    """Passes everything on, but asks the faults before each statement."""

    def __init__(self, connection: sqlite3.Connection, faults: Faults) -> None:
        self._connection = connection
        self._faults = faults

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        self._faults.before(sql, self._connection)
        return self._connection.execute(sql, *parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def make_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(f"a fault of the test: {code}")
    error.sqlite_errorcode = code
    return error
