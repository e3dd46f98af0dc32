"""Rows of a ledger make another one of the same version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.opening import make_ledger
from gateway.ledger.records import BadRecord, LedgerError, MoveRecord
from gateway.ledger.sqlite.books import read_records
from gateway.ledger.sqlite.schema import VERSION
from tests.ledger.kit import query
from tests.long.million import History, fill
from tests.support.rows import each_row

HISTORY = History(requests=60, days=2, models=2, keys=2, models_per_key=2)


def test_records_of_the_present_version_make_a_ledger_of_it(tmp_path: Path) -> None:
    fill(tmp_path / "old.db", HISTORY)
    with closing(sqlite3.connect(tmp_path / "old.db")) as old:
        report = make_ledger(tmp_path / "new.db", VERSION, read_records(old))
    assert report.ok
    assert query(tmp_path / "new.db", "PRAGMA user_version") == [(VERSION,)]
    assert query(tmp_path / "new.db", "SELECT sum(requests + failed) FROM daily") == [
        (HISTORY.requests,)
    ]


@each_row("version", [0, -1, VERSION - 1, VERSION + 1])
def test_another_version_is_refused(tmp_path: Path, version: int) -> None:
    with pytest.raises(
        BadRecord, match=f"version {version} is not {VERSION}; export it with the gateway"
    ):
        make_ledger(tmp_path / "new.db", version, [])


def test_no_name_reaches_the_statement(tmp_path: Path) -> None:
    """A file may name any table and column; only those of the schema become SQL."""
    for record in (
        MoveRecord("accounts; DROP TABLE keys", {"id": 1}),
        MoveRecord("accounts", {"id) VALUES (1); --": 1}),
        MoveRecord("accounts", {}),
    ):
        with pytest.raises(BadRecord, match=r"no table .* with such columns"):
            make_ledger(tmp_path / "new.db", VERSION, [record])


def test_numbers_beyond_64_bits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRecord, match="accounts: Python int too large"):
        make_ledger(tmp_path / "new.db", VERSION, [MoveRecord("accounts", {"id": 2**64})])


def test_a_ledger_that_was_there_is_not_replaced(tmp_path: Path) -> None:
    """The lock file of one whose database was moved away tells of it."""
    (tmp_path / "new.db.lock").write_text("x")
    with pytest.raises(LedgerError, match=r"there is no database, but new\.db\.lock shows"):
        make_ledger(tmp_path / "new.db", VERSION, [])
