"""A serving ledger in one SQLite file: lock it, recover, read everything into memory, commit batches.

In a round the writer looks for changes of others, then commits a batch. Failures of the database are
reported, not raised, so that a commit is never taken for a failure because of what came after it.

Requests that were in flight when the gateway died become `interrupted`: nothing is charged, nothing
is held any more, and the operator may settle each by a correction. Their status stays unknown,
because nobody knows what the caller got; `ended_ms` is when they were found. Only a process that
has the lock may do this: otherwise pending means in flight.
"""

from __future__ import annotations

import gc
import logging
import os
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from gateway.base.times import unix_ms
from gateway.ledger.base import COMMIT_SECONDS
from gateway.ledger.records import FilesLost, LedgerMismatch
from gateway.ledger.serving.ledger import ServingLedger, telling
from gateway.ledger.serving.memory import Memory, Snapshot
from gateway.ledger.serving.observer import Observations, ObservingEnd
from gateway.ledger.serving.queue import Item, NotPendingError, Report, RoundEnd
from gateway.ledger.serving.writer import Writer
from gateway.ledger.sqlite.batch import KnownValues, commit_requests, write_aside
from gateway.ledger.sqlite.books import run_audit
from gateway.ledger.sqlite.connections import ChangeFeed, ConnectionThread, SqliteReader
from gateway.ledger.sqlite.files import FileWatch, explain, marked, primary_code, take_lock
from gateway.ledger.sqlite.folds import fail_pending, fold
from gateway.ledger.sqlite.schema import connect, set_busy_timeout
from gateway.ledger.sqlite.statements import transaction

log = logging.getLogger("gateway.ledger")

FOLD_AT: Final = 1000
"""Fold early above this many unfolded charges, because each slows every read by some microseconds."""
LARGE_BYTES: Final = 8 << 20
"""Twice the size at which SQLite checkpoints by itself, 1,000 pages."""

ALARM_BYTES: Final = 64 << 20
"""The size at which the log is reported: a reader that never ends keeps it from being cut back."""

RETRY_SECONDS: Final = 5.0
"""The pause after an attempt: a reader may have been in the way."""
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
        self._told = ""

    @property
    def log_bytes(self) -> int:
        return self._wal.size_bytes

    def start_round(self, items: Sequence[Item], *, polls: bool, report: RoundEnd) -> None:
        work = partial(self._work, items=items, now_ms=self._clock(), polls=polls)
        self._thread.start(work, report)

    def start_observing(self, observed: Observations, report: ObservingEnd) -> None:
        work = partial(self._observe, observed=observed, now_ms=self._clock())
        self._thread.start(work, report)

    def break_off(self) -> None:
        """Leave it: nothing ends a write to a disk that is frozen."""

    def _observe(
        self, connection: sqlite3.Connection, *, observed: Observations, now_ms: int
    ) -> None:
        self._files.check()
        write_aside(connection, observed, now_ms)

    def _work(
        self, connection: sqlite3.Connection, *, items: Sequence[Item], now_ms: int, polls: bool
    ) -> Report:
        report = Report()
        try:
            # Writes to lost files can never be found again.
            self._files.check(is_brief=not polls)
            if polls:
                self._wal.look_after(connection, idle=not items)
                report.snapshot = self._poll(connection)
                report.polled = True
        except (sqlite3.Error, FilesLost) as error:
            report.unavailable, report.is_brief = error, is_busy(error)
            return report
        commit = partial(_commit, connection, now_ms, self._known, report)
        # An item that was alone in its batch is refused by now.
        if items and not commit(items) and len(items) > 1:
            # Undone as a whole: alone, only the bad ones fail.
            report.refused.clear()
            for item in items:
                # Once the database itself fails, the rest stays queued for another round.
                if report.unavailable is None:
                    commit([item])
        self._unfolded += len(report.done)
        if polls or self._unfolded >= FOLD_AT:
            self._fold(connection)
        return report

    def _poll(self, connection: sqlite3.Connection) -> Snapshot | None:
        snapshot = self._feed.poll(connection)
        if snapshot is not None:
            # The rows lack the charges since the last fold.
            for row in snapshot.keys:
                row.spent_nano = self._known.spent_nano.get(row.origin_id, row.spent_nano)
        return snapshot

    def _fold(self, connection: sqlite3.Connection) -> None:
        """Add new charges to the sums. If that fails, readers or the next fold do it."""
        if self._unfolded:
            try:
                fold(connection)
                self._unfolded = 0
            except sqlite3.Error as error:
                self._note_unfolded(error)

    def _note_unfolded(self, error: sqlite3.Error) -> None:
        """Tell of it, unless commits will, too, or it comes again."""
        told = f"sums cannot be written: {error}"
        if not _is_out_of_order(error) and told != self._told:
            log.error(told)
            self._told = told


def _commit(
    connection: sqlite3.Connection,
    now_ms: int,
    known: KnownValues,
    report: Report,
    items: Sequence[Item],
) -> bool:
    """Commit and report; return False if the items should be retried one by one."""
    try:
        committed = commit_requests(connection, items, now_ms, known)
    except ITEM_ERRORS as error:
        # The items are not to blame: each of them alone would fail, too.
        if isinstance(error, sqlite3.Error) and _is_out_of_order(error):
            report.unavailable, report.is_brief = error, is_busy(error)
            return True
        report.refused.extend((item, error) for item in items)
        return False
    report.balances_nano.update(committed.balances_nano)
    report.spent_nano.update(committed.spent_nano)
    report.spendings.update(committed.spendings)
    report.done.extend(items)
    return True


def is_busy(error: Exception) -> bool:
    """Return whether another process's transaction was in the way."""
    return primary_code(error) == sqlite3.SQLITE_BUSY


def _is_out_of_order(error: sqlite3.Error) -> bool:
    return primary_code(error) in _OUT_OF_ORDER


class WalKeeper:
    """Keeps the write-ahead log of one database small, on the connection's thread.

    SQLite writes its pages back into the database unless a reader is in the way, but the file keeps
    its length, and it grows behind a long read. When there is nothing to commit, the log is written
    back and truncated.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path.with_name(path.name + "-wal")
        self._clock = clock
        self._not_before_seconds = clock()
        self._is_warned = False
        self.size_bytes = 0
        """The size when it was last looked at."""

    def look_after(self, connection: sqlite3.Connection, *, idle: bool) -> None:
        """Truncate the log if that is due and possible; warn when it has grown too large."""
        self._note_size(self._truncate_if_due(connection, idle=idle))

    def _truncate_if_due(self, connection: sqlite3.Connection, *, idle: bool) -> int:
        """Return the size in bytes that is left."""
        size = self._measure()
        if not idle or size < LARGE_BYTES or self._clock() < self._not_before_seconds:
            return size
        self._not_before_seconds = self._clock() + RETRY_SECONDS
        # Only while nothing waits to be committed: it copies the whole log into the database.
        with suppress(sqlite3.Error):  # if the disk fails, the next commit reports it
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self._measure()

    def _note_size(self, size: int) -> None:
        """Note the size; warn when the log has grown too large, and again the next time it does."""
        self.size_bytes = size
        if size >= ALARM_BYTES and not self._is_warned:
            log.warning(
                "the write-ahead log has grown to %d MiB: some program keeps reading the database",
                size >> 20,
            )
        self._is_warned = size >= ALARM_BYTES

    def _measure(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:  # no log yet; if the disk fails, the next commit reports it
            return 0


SERVING_BUSY_MS: Final = 5
"""SQLite's own wait for another process's transaction. SQLite backs off to 100 ms, and an operator's
script that writes in a loop would then keep the server out for seconds. So the wait is short, and
the writer retries at once."""

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
    lock = take_lock(path)
    async with AsyncExitStack() as stack:
        # The last to be undone: who has the lock takes what is pending for a crash's.
        stack.callback(os.close, lock)
        async with telling(tell) as begin:
            opener = partial(connector, path, create=True, is_locked=True, begin=begin)
            thread = await stack.enter_async_context(ConnectionThread.open(opener))
            stack.enter_context(marked(lock, path))  # the opening has made the files that it names
            memory, feed = Memory(clock), ChangeFeed()
            with _uncollected():
                recover = partial(recover_and_read, feed=feed, path=path, now_ms=clock())
                memory.apply(await thread.run(partial(recover, begin=begin)))
        store = SqliteStore(
            thread, feed, WalKeeper(path), FileWatch(path, serving_pid=os.getpid()), clock=clock
        )
        reader = await stack.enter_async_context(SqliteReader.open(path))
        writer = Writer(store, memory, commit_seconds=commit_seconds)
        ledger = ServingLedger(store, memory, reader, clock, writer)
        stack.push_async_callback(ledger.close)
        yield ledger


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
    connection: sqlite3.Connection,
    *,
    feed: ChangeFeed,
    path: Path,
    now_ms: int,
    begin: Callable[[str], None],
) -> Snapshot:
    """Audit, void what a crash left pending, and read everything. Needs the lock.

    Nothing is written to a file that is damaged or whose books do not add up. `begin` is called with
    each step.
    """
    try:
        begin("proving the books since the last audit")
        report = run_audit(connection, full=False, now_ms=now_ms)
        if not report.ok:
            raise LedgerMismatch(f"{path}: the books do not add up: {'; '.join(report.problems)}")
        begin("voiding the requests of a crash")
        if interrupted := interrupt_pending(connection, now_ms):
            log.warning(
                "requests in flight when the gateway last died: %d, now interrupted and charged 0;"
                " `audit` lists them",
                interrupted,
            )
        fold(connection)
        begin("reading accounts, budgets and keys")
        snapshot = feed.read_all(connection, now_ms)
        set_busy_timeout(connection, SERVING_BUSY_MS)
    except sqlite3.Error as error:
        raise explain(path, error) from error
    return snapshot


def interrupt_pending(connection: sqlite3.Connection, now_ms: int) -> int:
    """Void all pending requests in one transaction; return how many there were."""
    with transaction(connection):
        # Before the update, after which nothing is pending any more.
        fail_pending(connection, now_ms)
        return connection.execute(_INTERRUPT, (now_ms,)).rowcount
