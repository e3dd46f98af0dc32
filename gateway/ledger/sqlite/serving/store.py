"""The writer's part of the database: look for changes of others, then commit a batch.

Failures of the database are reported, not raised, so that a commit is never taken for a failure
because of what came after it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import aiosqlite

from gateway.ledger.records import FilesLost
from gateway.ledger.serving.rounds import Item, Report
from gateway.ledger.serving.sums import Observations
from gateway.ledger.sqlite.batch import NotPendingError, commit_requests, write_aside
from gateway.ledger.sqlite.files import FileWatch, primary_code
from gateway.ledger.sqlite.serving.changes import ChangeFeed
from gateway.ledger.sqlite.serving.thread import report_from_thread
from gateway.ledger.sqlite.serving.wal import WalKeeper

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
    """Implements `rounds.Store`. Only its thread touches the connection and what is watched beside it."""

    takes_back = False

    def __init__(
        self,
        database: aiosqlite.Connection,
        feed: ChangeFeed,
        wal: WalKeeper,
        files: FileWatch,
        *,
        clock: Callable[[], int],
    ) -> None:
        self._database = database
        self._feed = feed
        self._wal = wal
        self._files = files
        self._clock = clock
        self._known_prices: set[int] = set()

    def start_round(
        self,
        items: Sequence[Item],
        *,
        polls: bool,
        report: Callable[[Report | BaseException], None],
    ) -> None:
        """Poll if told, then commit the items together, or one by one if one is bad.

        Nothing is done while files of the database are lost. `report` is called with the result,
        or with the error that a bug of ours raised.
        """
        work = partial(self._work, items=items, now_ms=self._clock(), polls=polls)
        report_from_thread(self._database, work, report)

    def start_observing(
        self, observed: Observations, *, report: Callable[[BaseException | None], None]
    ) -> None:
        """Write sums, behind the round under way. `report` gets None, or why they are not written."""
        work = partial(self._observe, observed=observed, now_ms=self._clock())
        report_from_thread(self._database, work, report)

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
            self._files.check()
            if polls:
                self._wal.look_after(connection, idle=not items)
                report.snapshot = self._feed.poll(connection)
                report.polled = True
        except (sqlite3.Error, FilesLost) as error:
            report.unavailable, report.is_brief = error, is_busy(error)
            return report
        commit = partial(_commit, connection, now_ms, self._known_prices, report)
        if items and not commit(items) and len(items) > 1:
            report.refused.clear()
            for item in items:
                if report.unavailable is None:
                    commit([item])
        return report


def _commit(
    connection: sqlite3.Connection,
    now_ms: int,
    known_prices: set[int],
    report: Report,
    items: Sequence[Item],
) -> bool:
    """Commit and report; return False if the items should be retried one by one."""
    try:
        committed = commit_requests(connection, items, now_ms, known_prices)
    except ITEM_ERRORS as error:
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
