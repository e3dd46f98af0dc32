"""One visit to the connection's thread: look for changes, then commit a batch.

What a database can do wrong is reported, not raised: what was committed is never taken as failed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.ledger.batch import Item, NotPendingError, commit_requests
from gateway.ledger.changes import ChangeFeed
from gateway.ledger.memory import Snapshot
from gateway.ledger.wal import WalKeeper

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
"""Nothing is wrong with the batch: it may work later."""

PRIMARY_CODE: Final = 0xFF
"""Extended result codes carry the primary one in their lowest byte."""

ITEM_ERRORS: Final = (
    sqlite3.Error,
    NotPendingError,
    OverflowError,
    UnicodeError,
    LookupError,
    TypeError,
    ValueError,
)
"""What a bad item can raise: a constraint, a number or text that SQLite cannot hold, a bug of ours
that it alone brings out."""


@dataclass(slots=True)
class Report:
    """What a hop did; items in neither list were not tried, or may be tried again."""

    polled: bool = False
    """Whether other connections' commits were looked for, and `snapshot` is what they changed."""
    snapshot: Snapshot | None = None
    balances_nano: dict[int, int] = field(default_factory=dict)
    spent_nano: dict[str, int] = field(default_factory=dict)
    done: list[Item] = field(default_factory=list)
    refused: list[tuple[Item, Exception]] = field(default_factory=list)
    unavailable: sqlite3.Error | None = None
    wal_bytes: int | None = None


def run_hop(
    connection: sqlite3.Connection,
    feed: ChangeFeed | None,
    items: Sequence[Item],
    now_ms: int,
    wal: WalKeeper | None = None,
) -> Report:
    """Poll `feed` if given, then commit the items: together, or singly if one of them is bad."""
    report = Report()
    if wal is not None:
        report.wal_bytes = wal.look_after(connection, idle=not items)
    try:
        if feed is not None:
            report.snapshot = feed.poll(connection)
            report.polled = True
    except sqlite3.Error as error:
        report.unavailable = error
        return report
    if items and not _commit(connection, items, now_ms, report) and len(items) > 1:
        report.refused.clear()
        for item in items:
            if report.unavailable is None:
                _commit(connection, [item], now_ms, report)
    return report


def _commit(
    connection: sqlite3.Connection, items: Sequence[Item], now_ms: int, report: Report
) -> bool:
    """Whether there is nothing left to try; what happened is added to the report."""
    try:
        committed = commit_requests(connection, items, now_ms)
    except ITEM_ERRORS as error:
        if isinstance(error, sqlite3.Error) and _is_out_of_order(error):
            report.unavailable = error
            return True
        report.refused.extend((item, error) for item in items)
        return False
    report.balances_nano.update(committed.balances_nano)
    report.spent_nano.update(committed.spent_nano)
    report.done.extend(items)
    return True


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process's transaction was in the way."""
    return _primary_code(error) == sqlite3.SQLITE_BUSY


def _is_out_of_order(error: sqlite3.Error) -> bool:
    return _primary_code(error) in _OUT_OF_ORDER


def _primary_code(error: sqlite3.Error) -> int:
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & PRIMARY_CODE
