"""One round on the connection: a batch is committed whole, or later, or without its bad items."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger import Account, Hold, Key, KeyTerms
from gateway.ledger.serving.rounds import Item, Report
from gateway.ledger.sqlite.serving.store import commit_items, is_busy
from tests.ledger.faults import make_error
from tests.ledger.kit import Place, admission, assert_sound, make_place, query, settlement

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


def commit(connection: sqlite3.Connection, items: Sequence[Item]) -> Report:
    report = Report()
    commit_items(connection, items, 1, report)
    return report


def fail_and_retry(place: Place, items: Sequence[Item], statement: int) -> tuple[Report, Report]:
    """Return the reports of a round whose n-th statement fails, and of the next one."""
    with closing(sqlite3.connect(place.path, factory=DyingDisk, isolation_level=None)) as disk:
        disk.fail_at = statement
        first = commit(disk, items)
        return first, commit(disk, [item for item in items if item not in first.done])


def test_failure_at_any_statement_commits_all_or_nothing(tmp_path: Path) -> None:
    """However far a batch got: tried again it is whole, and charged once."""
    for statement in range(1, 10):
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


@pytest.mark.parametrize(
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
        report = commit(disk, items)
    assert report.unavailable is not None
    assert (report.is_brief, report.done, report.refused) == (expected, [], [])


def make_holds(place: Place) -> list[Hold]:
    account = Account(1, "a", suspended=False, balance_nano=CREDIT)
    key = Key(place.key_id, account, KeyTerms())
    return [Hold(admission(), account, key, 1000) for _ in range(3)]
