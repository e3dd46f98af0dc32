"""Carries out rounds in one SQLite file, on a thread that owns the writer's connection.

In a round the writer looks for changes of others, then commits a batch. Failures of the database are
reported, not raised, so that a commit is never taken for a failure because of what came after it.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from gateway.ledger.base import Aside, AsideEnd
from gateway.ledger.records import FilesLost, LedgerError
from gateway.ledger.serving.queue import Item, NotPendingError, Report, RoundEnd
from gateway.ledger.sqlite.batch import KnownValues, commit_requests, write_aside
from gateway.ledger.sqlite.faults import REASONS, explain, primary_code
from gateway.ledger.sqlite.files import FileWatch
from gateway.ledger.sqlite.folds import fold
from gateway.ledger.sqlite.polls import ChangeFeed, WalKeeper
from gateway.ledger.sqlite.thread import ConnectionThread

log = logging.getLogger("gateway.ledger")

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
