"""Causes that make SQLite's commits fail: no page left, a lock, a broken disk; and what it is called."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from gateway.errors import LedgerUnavailable
from gateway.ledger.base import Key
from gateway.ledger.serving.health import BUSY_SECONDS, TOLD_SECONDS, Health
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving import open_sqlite
from tests.ledger.contract.kit import admission, charge, settlement, until
from tests.ledger.faults import Faults
from tests.ledger.kit import assert_sound, find_key, make_place

pytestmark = pytest.mark.usefixtures("quick_polls")

CREDIT = 10**12

FILL = "PRAGMA max_page_count = 1"
"""SQLite takes the present size instead, so the next page is a real SQLITE_FULL."""
MAKE_ROOM = "PRAGMA max_page_count = 1000000"


async def fill_last_page(ledger: ServingLedger, key: Key) -> None:
    """Charge until the database has no page left to write to."""
    while ledger.writable:
        hold = ledger.hold(key, admission(1))
        await asyncio.wait((ledger.settle(hold, settlement(1)),), timeout=0.05)


async def test_a_full_database_is_an_outage_that_ends_by_itself(tmp_path: Path) -> None:
    place, faults = make_place(tmp_path, credit_nano=CREDIT), Faults()
    async with open_sqlite(place.path, connector=faults.connect) as ledger:
        key = find_key(ledger, place)
        await faults.run_sql(FILL)
        await fill_last_page(ledger, key)
        await until(lambda: not ledger.writable)
        with pytest.raises(LedgerUnavailable):
            ledger.hold(key, admission())
        await faults.run_sql(MAKE_ROOM)
        await until(lambda: ledger.writable)
        await charge(ledger, key, 5)
    assert_sound(place.path)


async def test_lock_of_another_process_is_an_outage_only_while_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.ledger.serving.health.BUSY_SECONDS", 0.05)
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with open_sqlite(place.path) as ledger:
        key = find_key(ledger, place)
        with closing(connect(place.path)) as other:
            other.execute("BEGIN IMMEDIATE")
            hold = ledger.hold(key, admission())
            future = ledger.settle(hold, settlement(9))
            await until(lambda: not ledger.writable)
            assert not future.done()
            other.execute("ROLLBACK")
        await future
        assert ledger.writable
        assert key.account.balance_nano == CREDIT - 9


def note(health: Health, now_seconds: float, *, is_brief: bool) -> tuple[bool, bool]:
    """Note a failure; return whether the ledger is writable, and the next try pauses."""
    health.note_failure(OSError("no"), now_seconds, is_brief=is_brief)
    return health.writable, health.should_pause


def test_a_lock_is_an_outage_after_its_time_and_any_other_failure_at_once() -> None:
    health = Health()
    assert note(health, 5, is_brief=True) == (True, False)
    assert note(health, 5 + BUSY_SECONDS - 0.1, is_brief=True) == (True, False)
    health.note_success(6)
    assert note(health, 5 + BUSY_SECONDS, is_brief=True) == (True, False), "it began anew"
    assert note(health, 5 + 2 * BUSY_SECONDS, is_brief=True) == (False, False)
    health.note_success(8)
    assert note(health, 9, is_brief=False) == (False, True)
    health.note_success(9)
    assert (health.writable, health.should_pause) == (True, False)


def test_an_outage_is_logged_when_it_begins_and_ends(caplog: pytest.LogCaptureFixture) -> None:
    health = Health()
    for _ in range(3):
        note(health, 0, is_brief=False)
    health.note_hang(2.5, 1)
    for _ in range(2):
        health.note_success(2)
    for second in (TOLD_SECONDS, TOLD_SECONDS + 1):
        health.note_hang(2.5, second)
    levels = [record.levelname for record in caplog.records]
    assert levels == ["CRITICAL", "WARNING", "ERROR"]


def test_a_ledger_that_comes_and_goes_is_told_once_a_minute_and_as_it_is_in_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    health = Health()
    for second in range(TOLD_SECONDS):
        note(health, second, is_brief=False)
        health.note_success(second + 0.5)
    assert [record.levelname for record in caplog.records] == ["CRITICAL", "WARNING"]
    for second in range(TOLD_SECONDS, 3 * TOLD_SECONDS):
        note(health, second, is_brief=False)
    assert [record.levelname for record in caplog.records[2:]] == ["CRITICAL"]
    for second in range(3 * TOLD_SECONDS, 4 * TOLD_SECONDS):
        health.note_success(second)
    assert [record.levelname for record in caplog.records[3:]] == ["WARNING"]


def test_accounts_that_are_locked_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    health = Health()
    for second in range(3):
        health.note_locks(["a", "b"], second)
    for second in range(3, 6):
        health.note_locks([], second)
    locked, free = caplog.messages
    assert "all others go on: a, b." in locked
    assert "no account is locked" in free
