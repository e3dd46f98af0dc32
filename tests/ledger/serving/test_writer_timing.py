"""When the writer commits, polls and notices a hang, on a clock that jumps to the next timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing

import pytest

from gateway.ledger.base import COMMIT_SECONDS, Account, Hold, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.serving.holds import take_hold
from gateway.ledger.serving.memory import Memory
from gateway.ledger.serving.queue import LINGER_SECONDS
from gateway.ledger.serving.store import Item, Observations, Report, Store
from gateway.ledger.serving.writer import POLL_SECONDS, SHARE_SECONDS, Writer
from tests.api.lives.loop import VirtualLoop
from tests.ledger.contract.kit import NOW_MS, admission, settlement


class PlayedStore(Store):
    """Commits nothing; a round ends when told. `begun` has the time and the items of each."""

    is_shared = takes_back = False
    log_bytes = 0

    def __init__(self) -> None:
        self.begun: list[tuple[float, list[Item], bool]] = []
        self.reports: list[Callable[[Report | BaseException], None]] = []
        self.broken_off = 0

    def start_round(
        self,
        items: Sequence[Item],
        *,
        polls: bool,
        report: Callable[[Report | BaseException], None],
    ) -> None:
        self.begun.append((asyncio.get_running_loop().time(), list(items), polls))
        self.reports.append(report)

    def start_observing(
        self, observed: Observations, *, report: Callable[[BaseException | None], None]
    ) -> None:
        raise AssertionError(observed, report)

    def break_off(self) -> None:
        self.broken_off += 1

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


def make_hold() -> Hold:
    account = Account(1, "a", suspended=False, balance_nano=10**9)
    return take_hold(Key("k", account, KeyTerms(), Line("k")), admission())


def test_an_idle_writer_wakes_four_times_a_second_to_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float | None] = []
    select = VirtualLoop.select

    def count(loop: VirtualLoop, timeout: float | None) -> list[object]:
        waits.append(timeout)
        return select(loop, timeout)

    async def scene(writer: Writer, store: PlayedStore) -> None:
        monkeypatch.setattr(VirtualLoop, "select", count)
        for _ in range(3):
            await asyncio.sleep(POLL_SECONDS + 0.001)
            store.end_round()
        assert writer.health.writable
        times, items, polls = zip(*store.begun, strict=True)
        assert times == pytest.approx([POLL_SECONDS, 2 * POLL_SECONDS, 3 * POLL_SECONDS])
        assert (items, polls) == (([], [], []), (True, True, True))
        assert sum(bool(timeout) for timeout in waits) == 2 * 3, "the writer's and the test's"

    play(scene)


def test_a_process_that_slept_has_no_commit_that_hangs() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        await asyncio.sleep(POLL_SECONDS)
        await asyncio.sleep(0)
        store.end_round()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        loop._virtual_seconds += 2 * COMMIT_SECONDS
        await asyncio.sleep(0.001)
        assert writer.health.writable
        assert [polls for _, _, polls in store.begun] == [True, True]

    play(scene)


def test_an_admission_lingers_for_its_settlement_unless_somebody_waits() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        alone, ended = make_hold(), make_hold()
        writer.queue.linger(alone)
        writer.queue.linger(ended)
        await asyncio.sleep(LINGER_SECONDS / 2)
        ended.settlement = settlement(5)
        ended.settled = asyncio.get_running_loop().create_future()
        writer.queue.add(ended)
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
        writer.queue.add(make_hold())
        await asyncio.sleep(COMMIT_SECONDS - 0.001)
        assert (writer.health.writable, store.broken_off) == (True, 0)
        await asyncio.sleep(0.002)
        assert (writer.health.writable, store.broken_off) == (False, 1)
        store.end_round()
        assert writer.health.writable
        await asyncio.sleep(POLL_SECONDS + 0.001)
        assert store.begun[-1][1:] == ([], True), "it polls again"

    play(scene)


def test_what_comes_during_a_round_is_one_batch() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        for _ in range(3):
            writer.queue.add(make_hold())
        assert [len(items) for _, items, _ in store.begun] == [1]
        store.end_round()
        assert [len(items) for _, items, _ in store.begun] == [1, 2]

    play(scene)


def test_those_who_ask_for_a_poll_at_a_time_share_it() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        async with asyncio.TaskGroup() as asking:
            for _ in range(2):
                asking.create_task(writer.refresh())
                await asyncio.sleep(SHARE_SECONDS / 3)
            await asyncio.sleep(SHARE_SECONDS)
            store.end_round()
        ((begun, _, polls),) = store.begun
        assert polls
        assert begun == pytest.approx(SHARE_SECONDS)

    play(scene)
