"""The recovery as one transaction: logged once, all or nothing, killed at any statement."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.admin import accounts
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.audit import MAX_TO_SETTLE
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving.ledger import interrupt_pending, open_sqlite
from tests.ledger.kit import (
    Place,
    admission,
    charge,
    find_key,
    make_place,
    query,
    settlement,
)
from tests.support.rows import each_row

CREDIT = 10**12
HOLD = 1000
BOOKS = "SELECT * FROM requests ORDER BY id", "SELECT * FROM entries", "SELECT * FROM accounts"


async def crash(folder: Path, pending: int) -> Place:
    """A database as a kill leaves it: one posted request, one voided, `pending` in flight."""
    place = make_place(folder, credit_nano=CREDIT)
    async with open_sqlite(place.path) as ledger:
        key = find_key(ledger, place)
        await charge(ledger, key, 70)
        await ledger.settle(ledger.hold(key, admission()), settlement(0, outcome="caller_left"))
        holds = [ledger.hold(key, admission(HOLD)) for _ in range(pending)]
        for hold in holds:
            await ledger.wait_admitted(hold)
    return place


def read_books(place: Place) -> list[list[tuple[object, ...]]]:
    return [query(place.path, sql) for sql in BOOKS]


async def start(place: Place, now_ms: int = 1_700_000_100_000) -> None:
    async with open_sqlite(place.path, clock=lambda: now_ms) as ledger:
        assert find_key(ledger, place).account.held_nano == 0


async def test_a_crash_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A second start finds nothing, changes no row and says nothing."""
    place = await crash(tmp_path, 3)
    await start(place)
    assert caplog.text.count("in flight when the gateway last died: 3") == 1
    after, log = read_books(place), caplog.text
    await start(place, now_ms=1_700_000_200_000)
    assert (read_books(place), caplog.text) == (after, log)


async def test_10_000_are_recovered(tmp_path: Path) -> None:
    place = await crash(tmp_path, 1)
    with closing(connect(place.path)) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(requests)")][1:]
        database.execute(
            f"INSERT INTO requests (id, {', '.join(columns)})"
            f" WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
            f" SELECT printf('req_%028d', i), {', '.join(columns)}"
            " FROM n, (SELECT * FROM requests WHERE state = 'pending')"
        )
    await start(place)
    found = query(place.path, "SELECT count(*) FROM requests WHERE outcome = 'interrupted'")
    assert found == [(10_000,)]


async def test_recovery_is_all_or_nothing(tmp_path: Path) -> None:
    """A disk that fails in the middle of it: start-up says so, and nothing is half done."""
    place = await crash(tmp_path, 4)
    with closing(connect(place.path)) as database:
        database.execute(
            "CREATE TRIGGER broken BEFORE UPDATE ON requests WHEN OLD.id = (SELECT max(id)"
            " FROM requests) BEGIN SELECT RAISE(ABORT, 'disk failure'); END"
        )
    before = read_books(place)
    with pytest.raises(LedgerError, match=r"gateway\.db: disk failure"):
        await start(place)
    assert read_books(place) == before


async def test_audit_lists_at_most_100(tmp_path: Path) -> None:
    place = await crash(tmp_path, MAX_TO_SETTLE + 5)
    await start(place)
    with accounts.open_books(place.path) as books:
        report = books.audit()
    assert (len(report.to_settle), report.unsettled) == (100, MAX_TO_SETTLE + 5)


async def test_kill_at_any_moment_of_recovery_changes_nothing(tmp_path: Path) -> None:
    """A copy taken between any two steps of a start recovers to the same books."""
    place = await crash(tmp_path, 3)
    copies = list[tuple[str, Place]]()

    def copy(statement: str) -> None:
        folder = tmp_path / str(len(copies))
        folder.mkdir()
        for path in tmp_path.glob("gateway.db*"):
            if not path.name.endswith((".lock", "-shm")):
                shutil.copyfile(path, folder / path.name)
        copies.append((statement, replace(place, path=folder / "gateway.db")))

    with closing(connect(place.path)) as database:
        database.set_trace_callback(copy)
        assert interrupt_pending(database, 1_700_000_100_000) == 3
        database.set_trace_callback(None)
    await start(place)
    expected = read_books(place)
    assert (copies[0][0], copies[-1][0]) == ("BEGIN IMMEDIATE", "COMMIT")
    for statement, one in copies:
        await start(one)
        assert read_books(one) == expected, statement


@each_row(
    "sql",
    [
        "UPDATE requests SET state = 'posted', outcome = 'interrupted', ended_ms = 1",
        "UPDATE requests SET state = 'voided', outcome = 'interrupted', ended_ms = 1, status = 500",
        "UPDATE requests SET state = 'voided', outcome = 'shutdown', ended_ms = 1",
    ],
)
async def test_only_an_interrupted_request_has_no_status(tmp_path: Path, sql: str) -> None:
    place = await crash(tmp_path, 1)
    with (
        closing(connect(place.path)) as database,
        pytest.raises(sqlite3.IntegrityError, match="CHECK"),
    ):
        database.execute(f"{sql} WHERE state = 'pending'")
