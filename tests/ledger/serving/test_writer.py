"""Causes that make commits fail, and the writer: its batches, bad items, commits that hang, its end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager, ExitStack, closing
from dataclasses import replace

import pytest

from gateway.base.errors import InternalError, LedgerUnavailable
from gateway.base.process import ExitCode
from gateway.ledger.base import Key
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.serving.writer import Health
from gateway.ledger.sqlite.schema import connect
from tests.ledger.contract.kit import (
    NOW_MS,
    SHORT_SECONDS,
    WAIT_SECONDS,
    admission,
    charge,
    settlement,
    until,
    void,
)
from tests.ledger.faults import Faults
from tests.ledger.kit import Place, assert_sound, query, serving

REPEAT_SECONDS, BUSY_SECONDS, RETRY_SECONDS = 60, 1, 0.2

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


async def test_a_full_database_is_an_outage_that_ends_by_itself(
    place: Place, faults: Faults
) -> None:
    async with serving(place, connector=faults.connect) as (ledger, key):
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
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.ledger.serving.writer.BUSY_SECONDS", 0.05)
    async with serving(place) as (ledger, key):
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
    for second in (REPEAT_SECONDS, REPEAT_SECONDS + 1):
        health.note_hang(2.5, second)
    levels = [record.levelname for record in caplog.records]
    assert levels == ["CRITICAL", "WARNING", "ERROR"]


def test_a_ledger_that_comes_and_goes_is_told_once_a_minute_and_as_it_is_in_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    health = Health()
    for second in range(REPEAT_SECONDS):
        note(health, second, is_brief=False)
        health.note_success(second + 0.5)
    assert [record.levelname for record in caplog.records] == ["CRITICAL", "WARNING"]
    for second in range(REPEAT_SECONDS, 3 * REPEAT_SECONDS):
        note(health, second, is_brief=False)
    assert [record.levelname for record in caplog.records[2:]] == ["CRITICAL"]
    for second in range(3 * REPEAT_SECONDS, 4 * REPEAT_SECONDS):
        health.note_success(second)
    assert [record.levelname for record in caplog.records[3:]] == ["WARNING"]


def open_short(
    place: Place, faults: Faults
) -> AbstractAsyncContextManager[tuple[ServingLedger, Key]]:
    """Open a ledger on which nobody waits long."""
    return serving(place, commit_seconds=SHORT_SECONDS, connector=faults.connect)


async def test_bad_item_fails_alone(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """One item the database refuses: 500 for it alone, its hold free, its batch committed."""
    async with serving(place) as (ledger, key):
        holds = [ledger.hold(key, admission()) for _ in range(20)]
        bad = {
            3: replace(settlement(100), status=0),
            7: settlement(-100),
            11: replace(settlement(100), attempts=2**70),
            13: replace(settlement(100), provider="\ud800"),
        }
        with caplog.at_level(logging.ERROR):
            futures = [
                ledger.settle(hold, bad.get(number, settlement(100)))
                for number, hold in enumerate(holds)
            ]
            results = await asyncio.gather(*futures, return_exceptions=True)
        failed = {number for number, result in enumerate(results) if result is not None}
        assert failed == set(bad)
        assert all(isinstance(results[number], InternalError) for number in bad)
        assert len(caplog.records) == len(bad)
        assert ledger.writable
    assert (key.account.balance_nano, key.account.held_nano) == (CREDIT - 1600, 0)
    assert_sound(place.path)


async def test_end_during_an_outage_gives_up_in_time(place: Place, faults: Faults) -> None:
    """Closing waits for the ledger as long as a caller would; then whoever waits is told."""
    async with open_short(place, faults) as (ledger, key):
        faults.failing = True
        future = ledger.settle(ledger.hold(key, admission()), settlement(5))
    assert isinstance(future.exception(), LedgerUnavailable)
    assert query(place.path, "SELECT count(*) FROM requests") == [(0,)]


async def test_an_outage_that_passes_in_time_costs_the_end_nothing(
    place: Place, faults: Faults
) -> None:
    """The tries that fail after the beginning of the end are not the last ones."""
    opening = serving(place, commit_seconds=WAIT_SECONDS, connector=faults.connect)
    async with opening as (ledger, key):
        faults.failing = True
        future = ledger.settle(ledger.hold(key, admission()), settlement(5))
        await until(lambda: not ledger.writable)
        loop = asyncio.get_running_loop()
        loop.call_later(RETRY_SECONDS, setattr, faults, "failing", False)
    await future
    assert query(place.path, "SELECT state FROM requests") == [("posted",)]


async def test_whoever_has_waited_long_is_told_once_a_commit_fails(
    place: Place, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not only by the timer that looks after hanging commits."""
    monkeypatch.setattr("gateway.ledger.serving.writer.POLL_SECONDS", 10 * WAIT_SECONDS)
    async with open_short(place, faults) as (ledger, key):
        faults.failing = True
        hold = ledger.hold(key, admission())
        with pytest.raises(LedgerUnavailable):
            await asyncio.wait_for(ledger.settle(hold, settlement(5)), WAIT_SECONDS)


async def test_a_writer_that_fails_leaves_nobody_waiting(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug of ours in the writer: whoever waits is told, nobody spends, and it is in the log."""

    buggy = False

    def clock() -> int:
        assert not buggy, "a bug"
        return NOW_MS

    async with serving(place, clock=clock) as (ledger, key):
        hold, late = ledger.hold(key, admission()), ledger.hold(key, admission())
        buggy = True
        with pytest.raises(LedgerUnavailable):
            await ledger.settle(hold, settlement(5))
        with pytest.raises(LedgerUnavailable):
            ledger.hold(key, admission())
        with pytest.raises(LedgerUnavailable):
            await ledger.wait_admitted(late)
        with pytest.raises(LedgerUnavailable):
            await ledger.settle(late, settlement(5))
    assert "the ledger's writer failed" in caplog.text


async def test_a_hanging_commit_holds_up_nobody_else(place: Place, faults: Faults) -> None:
    """New holds are refused, whoever waits behind it is told, and what was under way is charged."""
    async with open_short(place, faults) as (ledger, key):
        with faults.freeze():
            charged = ledger.settle(ledger.hold(key, admission()), settlement(700))
            await until(faults.frozen.is_set)
            behind = ledger.hold(key, admission(50))
            with pytest.raises(LedgerUnavailable):
                await ledger.wait_admitted(behind)
            assert not ledger.writable
            with pytest.raises(LedgerUnavailable):
                ledger.hold(key, admission())
            assert not charged.done(), "its end is not known, so nobody may be told one"
        await charged
        await until(lambda: ledger.writable)
        assert (key.account.balance_nano, key.account.held_nano) == (10**12 - 700, 50)
    assert_sound(place.path)


async def test_who_waits_for_a_row_that_hangs_is_told_in_time(place: Place, faults: Faults) -> None:
    """A charge behind it is withdrawn: it is not under way itself, so a void can take its place."""
    async with open_short(place, faults) as (ledger, key):
        hold = ledger.hold(key, admission())
        with faults.freeze():
            await until(faults.frozen.is_set)
            with pytest.raises(LedgerUnavailable):
                await asyncio.wait_for(ledger.wait_admitted(hold), WAIT_SECONDS)
            charged = ledger.settle(hold, settlement(700, withdraw_if_late=True))
            with pytest.raises(LedgerUnavailable):
                await asyncio.wait_for(charged, WAIT_SECONDS)
        await until(lambda: key.account.held_nano == 0)
    assert query(place.path, "SELECT state, outcome FROM requests") == [("voided", "ledger_error")]
    assert_sound(place.path)


async def test_a_hanging_commit_does_not_hold_up_the_stop(
    place: Place, faults: Faults, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process leaves at once, after the time that a caller would wait."""
    left: list[int] = []

    def leave(code: int) -> None:
        left.append(code)
        faults.thaw()  # so that the test can end

    monkeypatch.setattr("os._exit", leave)
    with ExitStack() as until_closed:
        async with open_short(place, faults) as (ledger, key):
            until_closed.enter_context(faults.freeze())
            charged = ledger.settle(ledger.hold(key, admission()), void())
            await until(faults.frozen.is_set)
    assert set(left) == {ExitCode.FAILED}
    assert "a commit hangs, and so would the stop" in caplog.text
    await charged


async def test_who_stops_waiting_for_a_row_stops_nobody_else(place: Place, faults: Faults) -> None:
    async with serving(place, connector=faults.connect) as (ledger, key):
        hold = ledger.hold(key, admission())
        with faults.freeze():
            waiting = asyncio.ensure_future(ledger.wait_admitted(hold))  # noqa: TID251 - awaited
            await until(faults.frozen.is_set)
            waiting.cancel()
            await asyncio.wait((waiting,))
            again = asyncio.ensure_future(ledger.wait_admitted(hold))  # noqa: TID251 - awaited
            await asyncio.sleep(0)
        await again


async def test_each_commit_is_noted_with_its_requests(place: Place) -> None:
    """Rounds that only look for changes of others are none."""
    noted: list[tuple[int, float]] = []
    async with serving(place) as (ledger, key):
        ledger.commit_watchers.append(lambda requests, seconds: noted.append((requests, seconds)))
        await ledger.refresh()
        assert noted == []
        await asyncio.gather(
            *(ledger.settle(ledger.hold(key, admission()), settlement(1)) for _ in range(5))
        )
    assert sum(requests for requests, _ in noted) == 5
    assert all(0 < seconds < 60 for _, seconds in noted)
