"""The audit of a database file: SQLite's own checks of it, then the proof of the books.

SQLite checks its pages, its indexes, and rows that refer to missing ones. This finds damage that the
sums of the proof can miss, such as pages that a disk wrote wrongly.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from gateway.ledger.records import AuditReport
from gateway.ledger.sql.audit import (
    MAX_PROBLEMS,
    prove,
    read_checkpoint,
    read_last_entry,
    write_checkpoint,
)
from gateway.ledger.sql.rows import end_period
from gateway.ledger.sqlite.schema import transaction

QUICK_SECONDS: Final = 0.5
"""The longest check at the start. It reads all pages first, whatever time that takes: 0.4 s for a
million requests. Then it looks at the rows of a small file, or at some of a larger one."""
_READ_BYTES: Final = 1 << 18
"""Bytes of one read: small enough to stay in the processor's cache."""
_STEPS_BETWEEN_LOOKS: Final = 1000
"""Steps of SQLite's virtual machine between two looks at the clock, well below a millisecond."""


def check_file(
    connection: sqlite3.Connection, *, full: bool, clock: Callable[[], float] = time.monotonic
) -> tuple[str, ...]:
    """Return what is wrong with the file: all of it, or the first that is found in a bounded time."""
    read_through(connection)
    if full:
        return _run_check(connection, f"integrity_check({MAX_PROBLEMS})")
    deadline = clock() + QUICK_SECONDS
    connection.set_progress_handler(lambda: clock() > deadline, _STEPS_BETWEEN_LOOKS)
    try:
        # It ends at its first problem: an interrupted check would lose what it had found.
        return _run_check(connection, "quick_check(1)")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return ()
    finally:
        connection.set_progress_handler(None, 0)


def read_through(connection: sqlite3.Connection) -> int:
    """Read the file from end to end, so that a check finds it in memory; return the bytes read.

    A check follows the trees from page to page. On a cold disk that takes 9 s for 400 MB, and 1 s
    behind this. SQLite's own descriptor is used: closing another one would drop its locks.
    """
    _, _, path = connection.execute("PRAGMA database_list").fetchone()
    descriptor = _find_descriptor(Path(path))
    buffer, offset = bytearray(_READ_BYTES), 0
    while descriptor is not None and (read := os.preadv(descriptor, [buffer], offset)):
        offset += read
    return offset


def _find_descriptor(path: Path) -> int | None:
    """Return a descriptor by which this process has the file open; None if the system tells none."""
    with suppress(OSError):
        file = path.stat()
        for link in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # the listing's own descriptor is closed by now
                if os.path.samestat(os.fstat(int(link.name)), file):
                    return int(link.name)
    return None


def _run_check(connection: sqlite3.Connection, pragma: str) -> tuple[str, ...]:
    try:
        rows = connection.execute(f"PRAGMA {pragma}").fetchall()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:  # so damaged that the check itself fails
        return (f"the file is damaged: {error}",)
    return tuple(f"the file is damaged: {text}" for (text,) in rows if text != "ok")


def find_orphans(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the rows that refer to missing ones."""
    rows = connection.execute("PRAGMA foreign_key_check").fetchmany(MAX_PROBLEMS)
    return tuple(f"table {row[0]}, row {row[1]}: refers to a missing {row[2]}" for row in rows)


def run_audit(connection: sqlite3.Connection, *, full: bool, now_ms: int) -> AuditReport:
    """Prove everything, or only entries and balances since the last checkpoint (at the start).

    A success becomes the next checkpoint.
    """
    # First of all: what damaged pages give proves nothing, and to read them may fail.
    damage = check_file(connection, full=full)
    if damage:
        return AuditReport(ok=False, problems=damage)
    connection.create_function("end_period", 2, end_period, deterministic=True)
    connection.execute("BEGIN")  # one snapshot for all checks
    try:
        since = 0 if full else read_checkpoint(connection)
        report = prove(connection, since, full=full)
        if full:
            orphans = find_orphans(connection)
            report = replace(
                report, ok=report.ok and not orphans, problems=report.problems + orphans
            )
        last = read_last_entry(connection)
    finally:
        connection.execute("ROLLBACK")
    if report.ok:
        # Not within the snapshot: it began with a read, and cannot write once others have written.
        with transaction(connection):
            write_checkpoint(connection, last, now_ms)
    return report
