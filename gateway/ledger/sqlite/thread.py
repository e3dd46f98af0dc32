"""A thread that owns a connection to the database and runs functions on it."""

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
from queue import SimpleQueue
from typing import Final, TypeVar

from gateway.base.turns import end_wait

log = logging.getLogger("gateway.ledger")

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], object]
End = Callable[..., None]
"""Takes the result of some work, or the exception that it raised."""

_WAKE_BYTES: Final = 4096
"""Wake-ups that are taken at a time; those that are left wake the loop once more."""


class ConnectionThread:
    """A thread that owns a connection and runs whole functions on it, one after the other.

    aiosqlite offers single statements, each with a future and a turn of the event loop. A transaction
    of ten would queue ten times behind a busy loop, while others wait for its lock.
    """

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        self._connector = connector
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._work: SimpleQueue[tuple[Work, End] | None] = SimpleQueue()
        # `call_soon_threadsafe` makes a handle for each report, and reads the loop's pipe until that
        # fails: a system call and an exception more for each commit.
        self._told: deque[tuple[End, object]] = deque()
        self._waking, self._woken = socket.socketpair()
        for end in (self._waking, self._woken):
            end.setblocking(False)
        self._loop.add_reader(self._woken.fileno(), self._take_reports)
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
            await thread._opened
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
        self._work.put((function, report))

    async def run(self, function: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run a function; return its result or raise its exception."""
        wait: asyncio.Future[Result] = self._loop.create_future()
        self.start(function, partial(end_wait, wait))
        return await wait

    async def close(self) -> None:
        """End the thread behind all that it was given, while the loop can still take its reports."""
        self._work.put(None)
        await asyncio.to_thread(self._thread.join)
        self._loop.remove_reader(self._woken.fileno())
        # Something to take: the last reports may be taken by now.
        with suppress(BlockingIOError):
            self._waking.send(b"\0")
        self._take_reports()
        self._waking.close()
        self._woken.close()

    def _run(self) -> None:
        result: object
        try:
            connection = self._connector()
        except BaseException as error:  # noqa: BLE001 - it is reported
            self._tell(partial(end_wait, self._opened), error)
            return
        with closing(connection):
            self._tell(partial(end_wait, self._opened), None)
            while (work := self._work.get()) is not None:
                function, report = work
                try:
                    result = function(connection)
                except BaseException as error:  # noqa: BLE001 - it is reported
                    result = error
                self._tell(report, result)

    def _tell(self, report: End, result: object) -> None:
        """Let the loop call `report`, in the order of these calls."""
        self._told.append((report, result))
        with suppress(BlockingIOError):  # it is full, so the loop has yet to wake up
            self._waking.send(b"\0")

    def _take_reports(self) -> None:
        # Before the reports, so that one that comes during them wakes the loop again.
        self._woken.recv(_WAKE_BYTES)
        while self._told:
            report, result = self._told.popleft()
            try:
                report(result)
            except Exception:
                log.exception("what a ledger's thread reported could not be taken")
