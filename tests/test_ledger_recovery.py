"""After a crash: what was in flight is interrupted, once, free of charge, and can be settled."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from ledger_kit import (
    Place,
    admission,
    assert_sound,
    charge,
    find_key,
    make_place,
    query,
    settlement,
)

from gateway import accounts
from gateway.accounts import Refused
from gateway.ledger.audit import MAX_TO_SETTLE
from gateway.ledger.base import LedgerError
from gateway.ledger.recovery import interrupt_pending
from gateway.ledger.schema import connect
from gateway.ledger.sqlite import SqliteLedger

CREDIT = 10**12
HOLD = 1000
BOOKS = "SELECT * FROM requests ORDER BY id", "SELECT * FROM entries", "SELECT * FROM accounts"


async def crash(folder: Path, pending: int) -> Place:
    """A database as a kill leaves it: one posted request, one voided, `pending` in flight."""
    place = make_place(folder, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
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
    async with SqliteLedger.open(place.path, clock=lambda: now_ms) as ledger:
        assert find_key(ledger, place).account.held_nano == 0


async def test_pending_requests_become_interrupted_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Charged 0, nothing held, status unknown; a second start finds nothing and changes nothing."""
    place = await crash(tmp_path, 3)
    settled = query(place.path, "SELECT * FROM requests WHERE state <> 'pending'")
    entries = query(place.path, "SELECT * FROM entries")
    await start(place)
    assert caplog.text.count("in flight when the gateway last died: 3") == 1
    rows = "SELECT state, outcome, cost_nano, status, hold_nano, ended_ms FROM requests"
    interrupted = ("voided", "interrupted", 0, None, HOLD, 1_700_000_100_000)
    assert query(place.path, f"{rows} WHERE outcome = 'interrupted'") == [interrupted] * 3
    assert query(place.path, "SELECT * FROM requests WHERE outcome <> 'interrupted'") == settled
    assert query(place.path, "SELECT * FROM entries") == entries
    after, log = read_books(place), caplog.text
    await start(place, now_ms=1_700_000_200_000)
    assert read_books(place) == after
    assert caplog.text == log, "nothing to say"
    assert_sound(place.path)


async def test_clock_set_back_is_no_obstacle(tmp_path: Path) -> None:
    place = await crash(tmp_path, 1)
    await start(place, now_ms=5)
    ended = "SELECT ended_ms - started_ms FROM requests WHERE outcome = 'interrupted'"
    assert query(place.path, ended) == [(0,)]


async def test_recovery_of_10_000_takes_at_most_2_seconds(tmp_path: Path) -> None:
    place = await crash(tmp_path, 1)
    with closing(connect(place.path)) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(requests)")][1:]
        database.execute(
            f"INSERT INTO requests (id, {', '.join(columns)})"
            f" WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)"
            f" SELECT printf('req_%028d', i), {', '.join(columns)}"
            " FROM n, (SELECT * FROM requests WHERE state = 'pending')"
        )
    started = time.perf_counter()
    await start(place)
    seconds = time.perf_counter() - started
    print(f"recovered 10,000 in {seconds:.3f} s")
    assert seconds <= 2
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


async def test_operator_and_second_server_recover_nothing(tmp_path: Path) -> None:
    """To whoever has not the lock, pending means in flight."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission(HOLD))
        await ledger.wait_admitted(hold)
        with accounts.open_books(place.path) as books:
            report = accounts.audit(books)
        with pytest.raises(LedgerError, match="another gateway"):
            await start(place)
        assert (report.pending, report.interrupted) == (1, 0)
        await ledger.settle(hold, settlement(7))
    assert query(place.path, "SELECT balance_nano FROM accounts") == [(CREDIT - 7,)]


async def test_audit_lists_what_is_to_settle(tmp_path: Path) -> None:
    """The newest first; a correction that names a request takes it off, and it stays counted."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        for number in range(3):
            made = replace(admission(HOLD, id_=f"req_{2 - number}"), started_ms=1000 + number)
            await ledger.wait_admitted(ledger.hold(key, made))
    await start(place)
    with accounts.open_books(place.path) as books:
        report = accounts.audit(books)
        assert [one.request_id for one in report.to_settle] == ["req_0", "req_1", "req_2"]
        newest = report.to_settle[0]
        assert (newest.account, newest.model, newest.provider) == ("a", "demo/echo", "demo")
        assert (newest.hold_nano, newest.started_ms) == (HOLD, 1002)
        accounts.correct(books, "a", -9, note="delivered", request_id="req_1")
        accounts.correct(books, "a", 0, note="nothing came", request_id="req_0")
        with pytest.raises(Refused, match="corrects nothing"):
            accounts.correct(books, "a", 0, note="no request")
        report = accounts.audit(books)
        assert [one.request_id for one in report.to_settle] == ["req_2"]
        assert (report.ok, report.interrupted, report.unsettled) == (True, 3, 1)
    assert query(place.path, "SELECT balance_nano FROM accounts") == [(CREDIT - 9,)]


async def test_audit_lists_at_most_100(tmp_path: Path) -> None:
    place = await crash(tmp_path, MAX_TO_SETTLE + 5)
    await start(place)
    with accounts.open_books(place.path) as books:
        report = accounts.audit(books)
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


@pytest.mark.parametrize(
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
