"""One round on the connection: a batch is committed whole, or later, or without its bad items."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from gateway.ledger import Account, Hold, Key, KeyTerms
from gateway.ledger.sqlite.batch import Item
from gateway.ledger.sqlite.serving.store import Report, commit_items
from tests.ledger.faults import make_error
from tests.ledger.kit import Place, admission, assert_sound, make_place, query, settlement

CREDIT = 10**12


class DyingDisk(sqlite3.Connection):
    """Fails at the n-th statement; afterwards works again."""

    fail_at = 0
    statements = 0

    def execute(self, *arguments: object) -> sqlite3.Cursor:
        self.statements += 1
        if self.statements == self.fail_at:
            raise make_error(sqlite3.SQLITE_IOERR_WRITE)
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


def make_holds(place: Place) -> list[Hold]:
    account = Account(1, "a", suspended=False, balance_nano=CREDIT)
    key = Key(place.key_id, account, KeyTerms())
    return [Hold(admission(), account, key, 1000) for _ in range(3)]
