"""The operator's books in one SQLite file, and its audit.

The audit is SQLite's own checks of the file, then the proof of the books. SQLite checks its pages,
its indexes, and rows that refer to missing ones. This finds damage that the sums of the proof can
miss, such as pages that a disk wrote wrongly.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from gateway.base.progress import Progress, ignore
from gateway.base.times import unix_ms
from gateway.ledger.checks import require_new
from gateway.ledger.records import AuditReport, LedgerError
from gateway.ledger.sql import audit
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Connection, roll_back
from gateway.ledger.sql.rows import end_period
from gateway.ledger.sqlite import folds, schema
from gateway.ledger.sqlite.backup import write_backup
from gateway.ledger.sqlite.faults import describe
from gateway.ledger.sqlite.files import FileWatch, is_served, name_beside
from gateway.ledger.sqlite.statements import transaction

_CHECKS: Final = (
    *audit.read_checks(__file__),
    audit.Check(
        folds.WRONG_TOTALS, "day {0}, model {1}, provider {2}: the sums of all accounts are wrong"
    ),
)
MOST_FOLDS: Final = 50
"""Attempts at a snapshot behind a fold, with no commit in between: one succeeds beside a busy gateway."""
FOLD_PAUSE_SECONDS: Final = 1
"""How long no fold is tried after one that failed: a page of several reads waits for a lock once."""
IN_FORCE_SECONDS: Final = 0.5
"""Seconds after which a change is in force: a serving process looks for commits of others every quarter of a
second, and takes a batch's time."""
_STEPS_BETWEEN_LOOKS: Final = 1_000_000
"""Steps of SQLite's virtual machine, some 10 ms. Each look takes the GIL from the event loop."""


class SqliteBooks(Books):
    """Implements `Books`. Each use raises FilesLost if the files lost their names: writes would be lost."""

    _BEGIN_SNAPSHOT = "BEGIN"
    connection: sqlite3.Connection

    def __init__(
        self,
        path: Path,
        *,
        create: bool = False,
        clock: Callable[[], int] = unix_ms,
        progress: Progress = ignore,
    ) -> None:
        super().__init__(schema.connect(path, create=create, progress=progress), clock)
        self._path = path
        self._files = FileWatch(path)
        self._is_reading = False
        self._fold_after_seconds: float = 0

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Check the files before and on an error, which may be due to their loss.

        What is read may be sums, so all charges are folded before. Both are done once, by the
        outermost use: a command of thousands of statements would spend most of its time on them.
        """
        was_reading, self._is_reading = self._is_reading, True
        try:
            if not (was_reading or self.connection.in_transaction):
                self._files.check()
                self._fold()
            yield self.connection
        except sqlite3.Error as error:
            self._files.check()
            raise LedgerError(f"the ledger cannot be used: {describe(error)}") from error
        finally:
            self._is_reading = was_reading

    def _begin_snapshot(self) -> None:
        """Begin behind a fold. A charge that comes in between is folded, too, and a new one begins."""
        for _ in range(MOST_FOLDS):
            super()._begin_snapshot()
            is_behind = True
            try:
                is_behind = folds.has_unfolded(self.connection)
            finally:
                if is_behind:
                    roll_back(self.connection)
            if not is_behind:
                return
            if not self._fold():
                break
        super()._begin_snapshot()

    def _fold(self) -> bool:
        """Fold; return False if that cannot be done now. The sums then lack the latest charges."""
        if time.monotonic() < self._fold_after_seconds:
            return False
        try:
            folds.fold(self.connection)
        except sqlite3.Error:  # the file is locked, or cannot be written
            self._fold_after_seconds = time.monotonic() + FOLD_PAUSE_SECONDS
            return False
        return True

    def _transaction(self) -> AbstractContextManager[None]:
        # Checked again before the commit: writes to lost files are lost.
        return transaction(self.connection, self._files.check)

    def wait_for_others(self, milliseconds: int) -> None:
        with self.reading():
            schema.set_busy_timeout(self.connection, milliseconds)

    def give_up_when(self, is_over: Callable[[], bool]) -> None:
        self.connection.set_progress_handler(is_over, _STEPS_BETWEEN_LOOKS)

    def audit(self, progress: Progress = ignore) -> AuditReport:
        with self.reading():
            return run_audit(self.connection, full=True, now_ms=self.clock(), progress=progress)

    def back_up(self, target: Path, progress: Progress = ignore) -> int:
        require_new(target, "a backup")
        with self.reading():
            size = write_backup(self.connection, target, progress, "copying the database")
        with suppress(LedgerError):  # a ledger that cannot be written needs a backup most
            self.note("ledger.backup", account=None, target=target.name)
        return size

    def measure(self) -> tuple[int, int]:
        return _measure(self._path), _measure(name_beside(self._path, "-wal"))

    def wait_in_force(self) -> None:
        if is_served(self._path):
            time.sleep(IN_FORCE_SECONDS)


def _measure(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


QUICK_SECONDS: Final = 0.5
"""The longest check at the start. It reads all pages first, whatever time that takes: 0.4 s for a
million requests. Then it looks at the rows of a small file, or at some of a larger one."""
_READ_BYTES: Final = 1 << 18
"""Bytes of one read: small enough to stay in the processor's cache."""
_STEPS_BETWEEN_CLOCK_LOOKS: Final = 1000
"""Steps of SQLite's virtual machine between two looks at the clock, well below a millisecond."""


def check_file(
    connection: sqlite3.Connection, *, full: bool, clock: Callable[[], float] = time.monotonic
) -> tuple[str, ...]:
    """Return what is wrong with the file: all problems, or the first one found in limited time."""
    read_through(connection)
    if full:
        return _run_check(connection, f"integrity_check({audit.MAX_PROBLEMS})")
    deadline = clock() + QUICK_SECONDS
    connection.set_progress_handler(lambda: clock() > deadline, _STEPS_BETWEEN_CLOCK_LOOKS)
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
    """Return a descriptor by which this process has the file open; None if the system shows none."""
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
    rows = connection.execute("PRAGMA foreign_key_check").fetchmany(audit.MAX_PROBLEMS)
    return tuple(f"table {row[0]}, row {row[1]}: refers to a missing {row[2]}" for row in rows)


def run_audit(
    connection: sqlite3.Connection, *, full: bool, now_ms: int, progress: Progress = ignore
) -> AuditReport:
    """Prove everything, or only entries and balances since the last checkpoint (at the start).

    A success becomes the next checkpoint.
    """
    # First of all: what is read from damaged pages proves nothing, and reading may fail.
    progress("checking the file")
    damage = check_file(connection, full=full)
    if damage:
        return AuditReport(ok=False, problems=damage)
    connection.create_function("end_period", 2, end_period, deterministic=True)
    connection.execute("BEGIN")  # one snapshot for all checks
    try:
        folds.see_all_charges(connection)
        since = 0 if full else audit.read_checkpoint(connection)
        report = audit.prove(connection, since, full=full, more_checks=_CHECKS, progress=progress)
        if full:
            orphans = find_orphans(connection)
            report = replace(
                report, ok=report.ok and not orphans, problems=report.problems + orphans
            )
        # Entries not folded yet are missing in the index with which the next audit begins.
        last = min(audit.read_last_entry(connection), folds.read_folded(connection))
    finally:
        roll_back(connection)
    if report.ok:
        # Not within the snapshot: it began with a read, and cannot write once others have written.
        with transaction(connection):
            audit.write_checkpoint(connection, last, now_ms)
    return report
