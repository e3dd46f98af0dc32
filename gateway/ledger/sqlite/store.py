"""Carries out rounds in one SQLite file, on a thread that owns the writer's connection.

In a round the writer looks for changes of others, then commits a batch. Failures of the database are
reported, not raised, so that a commit is never taken for a failure because of what came after it.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sqlite3
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing, suppress
from functools import partial
from queue import SimpleQueue
from typing import Final, TypeVar

from gateway.ledger.base import Aside, AsideEnd
from gateway.ledger.records import FilesLost, LedgerError
from gateway.ledger.serving.queue import Item, NotPendingError, Report, RoundEnd
from gateway.ledger.sqlite.batch import KnownValues, commit_requests, write_aside
from gateway.ledger.sqlite.faults import REASONS, explain, primary_code
from gateway.ledger.sqlite.files import FileWatch
from gateway.ledger.sqlite.folds import fold
from gateway.ledger.sqlite.polls import ChangeFeed, WalKeeper

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
        self.start(function, partial(_end, wait))
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
            self._tell(partial(_end, self._opened), error)
            return
        with closing(connection):
            self._tell(partial(_end, self._opened), None)
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


def _end(wait: asyncio.Future[Result], result: Result | BaseException) -> None:
    if wait.done():  # its task was cancelled
        return
    if isinstance(result, BaseException):
        wait.set_exception(result)
    else:
        wait.set_result(result)


FOLD_AT: Final = 1000
"""Fold early above this many unfolded charges, because each slows every read by some microseconds."""
MAX_KNOWN_LINES: Final = 100_000
"""Lines of keys whose spending is kept, each in 200 bytes: holders may make keys for one request each."""
_OUT_OF_ORDER: Final = frozenset(
    {*REASONS, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL}
)
"""Errors that are not the batch's fault: it may work later."""
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
"""Errors after which nothing is written: what does not touch the damaged pages would still work, so requests
would be admitted whose charges then fail."""

ITEM_ERRORS: Final = (
    sqlite3.Error,
    NotPendingError,
    OverflowError,
    LookupError,
    TypeError,
    ValueError,
)
"""Errors that a bad item can raise: a constraint, a number or text that SQLite cannot store, or a
bug of ours that only this item brings out."""


class SqliteStore:
    """Carries out rounds. Only its thread uses the connection and the watched state beside it."""

    def __init__(
        self,
        thread: ConnectionThread,
        feed: ChangeFeed,
        wal: WalKeeper,
        files: FileWatch,
        *,
        clock: Callable[[], int],
    ) -> None:
        self._thread = thread
        self._feed = feed
        self._wal = wal
        self._files = files
        self._clock = clock
        self._known = KnownValues()
        self._unfolded = 0
        """Charges of this process since the last fold, at most."""
        self._logged = ""
        """The failure of a fold that was logged last: it fails again some times a second."""
        self._damage: LedgerError | None = None

    @property
    def log_bytes(self) -> int:
        return self._wal.size_bytes

    def start_round(self, items: Sequence[Item], *, polls: bool, report: RoundEnd) -> None:
        round_ = partial(self._run_round, items=items, now_ms=self._clock(), polls=polls)
        self._thread.start(round_, report)

    def start_aside(self, write: Aside, report: AsideEnd) -> None:
        self._thread.start(partial(self._write_aside, write=write), report)

    def break_off(self) -> None:
        """Leave it: nothing ends a write to a disk that is frozen."""

    def _write_aside(self, connection: sqlite3.Connection, *, write: Aside) -> None:
        self._files.check()
        write_aside(connection, write)

    def _run_round(
        self, connection: sqlite3.Connection, *, items: Sequence[Item], now_ms: int, polls: bool
    ) -> Report:
        report = Report(unavailable=self._damage)
        if self._damage is not None:
            return report
        try:
            # Writes to lost files can never be found again.
            self._files.check(is_brief=not polls)
            if polls:
                self._wal.look_after(connection, idle=not items)
                report.snapshot = self._feed.poll(connection)
                report.polled = True
        except (sqlite3.Error, FilesLost) as error:
            report.unavailable, report.is_brief = self._explain(error), is_busy(error)
            return report
        if report.snapshot is not None:
            # The rows lack the charges since the last fold.
            for row in report.snapshot.keys:
                row.spent_nano = self._known.spent_nano.get(row.origin_id, row.spent_nano)
        # An item that was alone in its batch is refused by now.
        if items and not self._commit(connection, items, now_ms, report) and len(items) > 1:
            # The batch was undone as a whole; one by one, only the bad items fail.
            report.refused.clear()
            for item in items:
                # Once the database itself fails, the rest stays queued for another round.
                if report.unavailable is None:
                    self._commit(connection, [item], now_ms, report)
        self._unfolded += len(report.done)
        if self._unfolded and (polls or self._unfolded >= FOLD_AT):
            self._fold(connection)
        return report

    def _commit(
        self, connection: sqlite3.Connection, items: Sequence[Item], now_ms: int, report: Report
    ) -> bool:
        """Commit and report; return False if the items should be retried one by one."""
        try:
            commit_requests(connection, items, now_ms, self._known, report)
        except ITEM_ERRORS as error:
            # The items are not to blame: each of them alone would fail, too.
            if isinstance(error, sqlite3.Error) and _is_out_of_order(error):
                report.unavailable, report.is_brief = self._explain(error), is_busy(error)
                return True
            report.refused.extend((item, error) for item in items)
            return False
        return True

    def _explain(self, error: sqlite3.Error | FilesLost) -> LedgerError:
        told = error if isinstance(error, FilesLost) else explain(self._files.path, error)
        if primary_code(error) in _DAMAGE:
            self._damage = told
        return told

    def _fold(self, connection: sqlite3.Connection) -> None:
        """Add new charges to the sums. If that fails, readers or the next fold do it."""
        try:
            fold(connection)
        except sqlite3.Error as error:
            told = f"sums cannot be written: {self._explain(error)}"
            will_be_told = _is_out_of_order(error)
        else:
            self._unfolded = 0
            # Now the database has all of it, and lines whose keys have ended must not stay for ever.
            if len(self._known.spent_nano) > MAX_KNOWN_LINES:
                self._known.spent_nano.clear()
            return
        # If the database is out of order, commits tell it.
        if not will_be_told and told != self._logged:
            log.error(told)
            self._logged = told


def is_busy(error: Exception) -> bool:
    """Return whether another process's transaction was in the way."""
    return primary_code(error) == sqlite3.SQLITE_BUSY


def _is_out_of_order(error: sqlite3.Error) -> bool:
    return primary_code(error) in _OUT_OF_ORDER
