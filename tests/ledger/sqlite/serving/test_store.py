"""One round on the connection: a batch is committed whole, or later, or without its bad items."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gateway.ledger.base import Account, Hold, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.serving.store import Item, Report
from gateway.ledger.sqlite.serving.store import SqliteStore, is_busy
from tests.ledger.faults import make_error
from tests.ledger.kit import Place, admission, assert_sound, make_place, query, settlement
from tests.support.rows import each_row

CREDIT = 10**12


class DyingDisk(sqlite3.Connection):
    """Fails at the n-th statement; afterwards works again."""

    fail_at = 0
    code = sqlite3.SQLITE_IOERR_WRITE
    statements = 0

    def execute(self, *arguments: object) -> sqlite3.Cursor:
        self.statements += 1
        if self.statements == self.fail_at:
            raise make_error(self.code)
        return super().execute(*arguments)  # type: ignore[arg-type] # passes through


def make_store() -> SqliteStore:
    """Make one whose work is done in this thread, on any connection, with all files in place."""
    files: Any = SimpleNamespace(check=lambda: None)
    unused: Any = None
    return SqliteStore(unused, unused, unused, files, clock=lambda: 1)


def commit(store: SqliteStore, connection: sqlite3.Connection, items: Sequence[Item]) -> Report:
    return store._work(connection, items=items, now_ms=1, polls=False)


def fail_and_retry(place: Place, items: Sequence[Item], statement: int) -> tuple[Report, Report]:
    """Return the reports of a round whose n-th statement fails, and of the next one."""
    with closing(sqlite3.connect(place.path, factory=DyingDisk, isolation_level=None)) as disk:
        store, disk.fail_at = make_store(), statement
        first = commit(store, disk, items)
        return first, commit(store, disk, [item for item in items if item not in first.done])


def test_failure_at_any_statement_commits_all_or_nothing(tmp_path: Path) -> None:
    """However far a batch got: tried again it is whole, and charged once."""
    for statement in range(1, 12):
        folder = tmp_path / str(statement)
        folder.mkdir()
        place = make_place(folder, credit_nano=CREDIT)
        items = [Item(hold, insert=True, settlement=settlement(5)) for hold in make_holds(place)]
        first, second = fail_and_retry(place, items, statement)
        assert first.refused == second.refused == []
        assert (first.unavailable is None) == bool(first.done), f"statement {statement}"
        assert len(first.done) + len(second.done) == 3
        assert query(place.path, "SELECT balance_nano FROM accounts") == [(CREDIT - 15,)]
        assert_sound(place.path)


@each_row(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, True),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, True),
        (sqlite3.SQLITE_LOCKED, False),
        (sqlite3.SQLITE_IOERR_WRITE, False),
        (sqlite3.SQLITE_FULL, False),
    ],
)
def test_only_a_lock_of_another_process_is_brief(
    tmp_path: Path, code: int, *, expected: bool
) -> None:
    """The next try may work at once; any other failure makes the writer pause."""
    assert is_busy(make_error(code)) is expected
    place = make_place(tmp_path)
    items = [Item(hold, insert=True, settlement=None) for hold in make_holds(place)]
    with closing(sqlite3.connect(place.path, factory=DyingDisk)) as disk:
        disk.fail_at, disk.code = 1, code
        report = commit(make_store(), disk, items)
    assert report.unavailable is not None
    assert (report.is_brief, report.done, report.refused) == (expected, [], [])


def make_holds(place: Place) -> list[Hold]:
    account = Account(1, "a", suspended=False, balance_nano=CREDIT)
    key = Key(place.key_id, account, KeyTerms(), Line(place.key_id))
    return [Hold(admission(), account, key, 1000) for _ in range(3)]
