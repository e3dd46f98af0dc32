"""The writer: its batches, bad items in them, commits that hang, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.errors import InternalError, LedgerUnavailable
from gateway.exit_codes import ExitCode
from gateway.ledger import COMMIT_SECONDS, Account, Key, KeyTerms
from gateway.ledger.sqlite.batch import MAX_ITEMS, Item
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving import writer
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from gateway.ledger.sqlite.serving.memory import Memory, QueuedHold, take_hold
from gateway.ledger.sqlite.serving.recovery import interrupt_pending
from gateway.ledger.sqlite.serving.schedule import LINGER_SECONDS, POLL_SECONDS
from gateway.ledger.sqlite.serving.store import Report, Store
from gateway.ledger.sqlite.serving.writer import Writer
from tests.api.lives.loop import VirtualLoop
from tests.ledger.contract.kit import NOW_MS, SHORT_SECONDS
from tests.ledger.faults import Faults
from tests.ledger.kit import (
    Place,
    admission,
    assert_sound,
    find_key,
    make_place,
    query,
    settlement,
    until,
    void,
)


def open_short(place: Place, faults: Faults) -> AbstractAsyncContextManager[SqliteLedger]:
    """Open a ledger on which nobody waits long."""
    return SqliteLedger.open(place.path, commit_seconds=SHORT_SECONDS, connector=faults.connect)


async def test_settlement_during_its_admissions_commit_is_the_next_batch(tmp_path: Path) -> None:
    place, faults = make_place(tmp_path, credit_nano=5000), Faults()
    async with SqliteLedger.open(place.path, connector=faults.connect) as ledger:
        key = find_key(ledger, place)
        with faults.freeze():
            hold = ledger.hold(key, admission())
            await until(faults.frozen.is_set)  # its row is under way
            future = ledger.settle(hold, settlement(100))
        await future
        assert (key.account.balance_nano, key.account.held_nano) == (4900, 0)


async def test_many_settlements_are_batch_after_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than one batch holds: the next one does not wait for the poll, or this takes an hour."""
    monkeypatch.setattr(writer, "POLL_SECONDS", 3600)
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        holds = [ledger.hold(key, admission(1)) for _ in range(20 * MAX_ITEMS)]
        futures = [ledger.settle(hold, settlement(1)) for hold in holds]
        await asyncio.gather(*futures)
        assert key.spent_nano == len(holds)


async def test_bad_item_fails_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One item the database refuses: 500 for it alone, its hold free, its batch committed."""
    place = make_place(tmp_path, credit_nano=10**6)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
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
        assert (key.account.balance_nano, key.account.held_nano) == (10**6 - 1600, 0)
    assert_sound(place.path)


async def test_row_settled_behind_our_back_is_not_charged(tmp_path: Path) -> None:
    """pending → posted or voided happens once, even if another process did it."""
    place = make_place(tmp_path, credit_nano=5000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission())
        await ledger.wait_admitted(hold)
        with closing(connect(place.path)) as other:
            interrupt_pending(other, 1)
        with pytest.raises(InternalError):
            await ledger.settle(hold, settlement(100))
        assert (key.account.balance_nano, key.account.held_nano) == (5000, 0)
    assert_sound(place.path)


async def test_end_during_an_outage_gives_up_in_time(tmp_path: Path) -> None:
    """Closing waits for the ledger as long as a caller would; then whoever waits is told."""
    place, faults = make_place(tmp_path), Faults()
    async with open_short(place, faults) as ledger:
        faults.failing = True
        future = ledger.settle(ledger.hold(find_key(ledger, place), admission()), settlement(5))
    assert isinstance(future.exception(), LedgerUnavailable)
    assert query(place.path, "SELECT count(*) FROM requests") == [(0,)]


async def test_a_writer_that_fails_leaves_nobody_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug of ours in the writer: whoever waits is told, nobody spends, and it is in the log."""

    buggy = False

    def clock() -> int:
        assert not buggy, "a bug"
        return NOW_MS

    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path, clock=clock) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission())
        buggy = True
        with pytest.raises(LedgerUnavailable):
            await ledger.settle(hold, settlement(5))
        with pytest.raises(LedgerUnavailable):
            ledger.hold(key, admission())
    assert "the ledger's writer failed" in caplog.text


async def test_a_hanging_commit_holds_up_nobody_else(tmp_path: Path) -> None:
    """New holds are refused, whoever waits behind it is told, and what was under way is charged."""
    place, faults = make_place(tmp_path), Faults()
    async with open_short(place, faults) as ledger:
        key = find_key(ledger, place)
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


async def test_a_hanging_commit_does_not_hold_up_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process leaves at once, after the time that a caller would wait."""
    place, faults = make_place(tmp_path), Faults()
    left: list[int] = []

    def leave(code: int) -> None:
        left.append(code)
        faults.thaw()  # so that the test can end

    monkeypatch.setattr("os._exit", leave)
    with ExitStack() as until_closed:
        async with open_short(place, faults) as ledger:
            until_closed.enter_context(faults.freeze())
            charged = ledger.settle(ledger.hold(find_key(ledger, place), admission()), void())
            await until(faults.frozen.is_set)
    assert set(left) == {ExitCode.FAILED}
    assert "a commit hangs, and so would the stop" in caplog.text
    await charged


class PlayedStore(Store):
    """Commits nothing; a round ends when told. `begun` has the time and the items of each."""

    def __init__(self) -> None:
        self.begun: list[tuple[float, list[Item], bool]] = []
        self.reports: list[Callable[[Report | BaseException], None]] = []

    def start_round(
        self,
        items: Sequence[Item],
        *,
        polls: bool,
        report: Callable[[Report | BaseException], None],
    ) -> None:
        self.begun.append((asyncio.get_running_loop().time(), list(items), polls))
        self.reports.append(report)

    def end_round(self) -> None:
        _, items, polls = self.begun[-1]
        self.reports[-1](Report(polled=polls, done=items))


def play(scene: Callable[[Writer, PlayedStore], Coroutine[object, object, None]]) -> None:
    """Play a scene with a writer, on a clock that jumps to the next timer."""

    async def run() -> None:
        store = PlayedStore()
        await scene(Writer(store, Memory(lambda: NOW_MS), commit_seconds=COMMIT_SECONDS), store)

    with closing(VirtualLoop()) as loop:
        loop.run_until_complete(run())


def make_hold() -> QueuedHold:
    account = Account(1, "a", suspended=False, balance_nano=10**9)
    return take_hold(Key("k", account, KeyTerms()), admission())


def test_an_idle_writer_polls_every_quarter_of_a_second_and_does_nothing_else() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        for _ in range(3):
            await asyncio.sleep(POLL_SECONDS + 0.001)
            store.end_round()
        assert writer.health.writable
        times, items, polls = zip(*store.begun, strict=True)
        assert times == pytest.approx([POLL_SECONDS, 2 * POLL_SECONDS, 3 * POLL_SECONDS])
        assert (items, polls) == (([], [], []), (True, True, True))

    play(scene)


def test_an_admission_lingers_for_its_settlement_unless_somebody_waits() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        alone, ended = make_hold(), make_hold()
        writer.linger(alone)
        writer.linger(ended)
        await asyncio.sleep(LINGER_SECONDS / 2)
        ended.settlement = settlement(5)
        ended.settled = asyncio.get_running_loop().create_future()
        writer.add(ended)
        await asyncio.sleep(0.001)
        store.end_round()
        assert ended.settled.done()
        await asyncio.sleep(2 * LINGER_SECONDS)
        store.end_round()
        (first, first_items, _), (second, second_items, _) = store.begun
        assert [item.hold for item in first_items] == [ended]
        assert [item.hold for item in second_items] == [alone]
        assert first == pytest.approx(LINGER_SECONDS / 2)
        assert LINGER_SECONDS <= second <= 2 * LINGER_SECONDS + 0.001

    play(scene)


def test_a_commit_hangs_after_its_time_and_not_before() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        await asyncio.sleep(POLL_SECONDS / 3)
        writer.add(make_hold())
        await asyncio.sleep(COMMIT_SECONDS - 0.001)
        assert writer.health.writable
        await asyncio.sleep(0.002)
        assert not writer.health.writable
        store.end_round()
        assert writer.health.writable
        await asyncio.sleep(POLL_SECONDS + 0.001)
        assert store.begun[-1][1:] == ([], True), "it polls again"

    play(scene)


def test_settlements_of_one_turn_are_one_batch() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        for _ in range(3):
            writer.add(make_hold())
        await asyncio.sleep(0)
        assert [len(items) for _, items, _ in store.begun] == [3]

    play(scene)


async def test_closing_commits_what_lingers(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        ledger.hold(find_key(ledger, place), admission())
    assert query(place.path, "SELECT state FROM requests") == [("pending",)]
