"""The audit finds what is wrong, wherever it is, and proves what is right."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_kit import Place, admission, charge, find_key, make_place, query, void

from gateway import accounts
from gateway.ledger.audit import run_audit
from gateway.ledger.base import LedgerMismatch
from gateway.ledger.recovery import interrupt_pending
from gateway.ledger.schema import connect
from gateway.ledger.sqlite import SqliteLedger

OPEN_UP = "DROP TRIGGER entries_no_update; DROP TRIGGER entries_no_delete;"
OPEN_UP += "DROP TRIGGER requests_settle_once; PRAGMA foreign_keys = OFF;"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return asyncio.run(make_history(tmp_path_factory.mktemp("history")))


@pytest.fixture
def place(history: Place, tmp_path: Path) -> Place:
    path = tmp_path / "gateway.db"
    shutil.copyfile(history.path, path)
    return replace(history, path=path)


async def make_history(folder: Path) -> Place:
    """Ten charges of 70, a void, a pending request, a credit and a correction."""
    place = make_place(folder, credit_nano=100_000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        for _ in range(10):
            await charge(ledger, key, 70)
        await ledger.settle(ledger.hold(key, admission()), void())
        await ledger.wait_admitted(ledger.hold(key, admission()))
    with accounts.open_books(place.path) as books:
        accounts.credit(books, "a", 5)
        accounts.correct(books, "a", -3, note="n")
        accounts.add_account(books, "idle")
    return place


def tamper(place: Place, sql: str) -> None:
    with closing(sqlite3.connect(place.path)) as connection:
        connection.executescript(OPEN_UP + sql)


def test_sound_books_pass_and_become_a_checkpoint(place: Place) -> None:
    with accounts.open_books(place.path) as books:
        report = accounts.audit(books)
        assert report.ok
        assert (report.accounts, report.entries, report.problems) == (2, 13, ())
        assert (report.pending, report.interrupted) == (1, 0)
        fast = run_audit(books._connection, full=False, now_ms=1)
        assert (fast.ok, fast.entries) == (True, 0), "all was proven before"
        accounts.credit(books, "a", 5)
        assert run_audit(books._connection, full=False, now_ms=1).entries == 1
    assert query(place.path, "SELECT max(entry_id) FROM checkpoints") == [(14,)]


def test_interrupted_requests_are_counted(place: Place) -> None:
    with closing(connect(place.path)) as connection:
        assert interrupt_pending(connection, 1) == 1
    with accounts.open_books(place.path) as books:
        report = accounts.audit(books)
    assert (report.ok, report.pending, report.interrupted) == (True, 0, 1)


EVERYWHERE = {
    "UPDATE accounts SET balance_nano = balance_nano + 1": "account a: balance is",
    "UPDATE accounts SET balance_nano = 1 WHERE name = 'idle'": "account idle: balance is 1",
    "UPDATE entries SET amount_nano = -71 WHERE id = 4": "entry 4: balance after",
    "UPDATE entries SET balance_after_nano = 0 WHERE id = 4": "entry 4: balance after",
    "DELETE FROM entries WHERE id = 4": "account a: balance is",
    "UPDATE requests SET cost_nano = 71 WHERE state = 'posted'": "is not posted at its amount",
    "UPDATE requests SET account_id = 2 WHERE state = 'posted'": "is not posted at its amount",
    "DELETE FROM requests WHERE state = 'posted'": "is not posted at its amount",
}
FULL_ONLY = {
    "UPDATE keys SET spent_nano = spent_nano + 1": "key key_",
    "UPDATE requests SET state = 'posted', outcome = 'complete', ended_ms = 1, status = 200"
    " WHERE state = 'pending'": "posted without a charge",
    "UPDATE hourly SET requests = requests + 1": "account a, hour 2023-11-14T22:00Z, model demo/echo,"
    " key key_",
    "UPDATE hourly SET failed = 0": "by 0 posted, -1 failed, 0 tokens, 0 nano-units",
    "UPDATE hourly SET input_tokens = input_tokens - 1, output_tokens = output_tokens + 1": "by 0"
    " posted, 0 failed, 2 tokens, 0 nano-units",
    "UPDATE hourly SET hour = hour + 1": "hour 2023-11-14T23:00Z",
    "UPDATE hourly SET cost_nano = cost_nano - 1": "0 tokens, -1 nano-units",
    "DELETE FROM hourly": "differ from its requests by -10 posted, -1 failed",
    "UPDATE daily SET requests = requests + 1": "account a, day 2023-11-14T00:00Z, model demo/echo,"
    " key key_",
    "UPDATE daily SET cost_nano = cost_nano + 1": "those of its hours by 0 posted, 0 failed, 0 tokens,"
    " 1 nano-units",
    "UPDATE daily SET day = day - 1": "day 2023-11-13",
    "DELETE FROM daily": "by -10 posted, -1 failed",
    "INSERT INTO daily VALUES (2, 1, 'm', 'nobody', 0, 0, 0, 0, 5, 0, 0)": "account idle, day"
    " 1970-01-02T00:00Z, model m, key nobody",
}


@pytest.mark.parametrize(("sql", "problem"), (EVERYWHERE | FULL_ONLY).items())
def test_full_audit_finds(place: Place, sql: str, problem: str) -> None:
    tamper(place, sql)
    with accounts.open_books(place.path) as books:
        report = accounts.audit(books)
    assert not report.ok
    assert any(problem in text for text in report.problems), report.problems


@pytest.mark.parametrize(("sql", "problem"), EVERYWHERE.items())
async def test_start_is_refused_on(place: Place, sql: str, problem: str) -> None:
    tamper(place, sql)
    with pytest.raises(LedgerMismatch, match=problem):
        async with SqliteLedger.open(place.path):
            pass


def test_a_failed_audit_is_no_checkpoint(place: Place) -> None:
    before = query(place.path, "SELECT max(entry_id) FROM checkpoints")
    tamper(place, "UPDATE accounts SET balance_nano = balance_nano + 1 WHERE name = 'a'")
    with accounts.open_books(place.path) as books:
        assert not accounts.audit(books).ok
    assert query(place.path, "SELECT max(entry_id) FROM checkpoints") == before
