"""When rounds begin, poll, commit and hang, on a clock that jumps to the next timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import closing

import pytest

from gateway.base.errors import LedgerUnavailable
from gateway.ledger.base import Account, Aside, AsideEnd, Hold, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.serving.memory import Memory, take_hold
from gateway.ledger.serving.queue import Item, Report, RoundEnd, Store
from gateway.ledger.serving.writer import Writer
from tests.api.lives.loop import VirtualLoop
from tests.ledger.contract.kit import NOW_MS, admission, settlement

COMMIT_SECONDS, LINGER_SECONDS, POLL_SECONDS = 5, 0.025, 0.25
RETRY_SECONDS, SHARE_SECONDS, MAX_ITEMS = 0.2, 0.005, 512


class PlayedStore(Store):
    """Commits nothing; a round ends when told. `begun` has the time and the items of each."""

    log_bytes = 0

    def __init__(self) -> None:
        self.begun: list[tuple[float, list[Item], bool]] = []
        self.reports: list[Callable[[Report | BaseException], None]] = []
        self.broken_off = 0

    def start_round(self, items: Sequence[Item], *, polls: bool, report: RoundEnd) -> None:
        self.begun.append((asyncio.get_running_loop().time(), list(items), polls))
        self.reports.append(report)

    def start_aside(self, write: Aside, report: AsideEnd) -> None:
        raise AssertionError(write, report)

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


def ask(writer: Writer, count: int = 1) -> list[asyncio.Future[None]]:
    return [asyncio.ensure_future(writer.refresh()) for _ in range(count)]  # noqa: TID251 - awaited


def test_one_round_follows_another_and_a_failed_one_is_tried_after_a_pause() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        for _ in range(3):
            writer.wake()
        assert len(store.begun) == 1, "one round at a time"
        store.end_round()
        assert len(store.begun) == 2, "for those who came during the first one"
        store.end_round()
        assert len(store.begun) == 2, "nobody waits"
        writer.wake()
        store.reports[-1](Report(unavailable=OSError("no")))
        writer.wake()
        await asyncio.sleep(RETRY_SECONDS - 0.001)
        assert len(store.begun) == 3, "a retry waits its time, whoever hurries"
        await asyncio.sleep(0.002)
        store.end_round()
        assert len(store.begun) == 4, "the retry had all that came in the pause"

    play(scene)


def test_a_poll_is_for_those_who_asked_before_it_and_the_next_one_if_it_fails() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        early = ask(writer, 2)
        await asyncio.sleep(SHARE_SECONDS + 0.001)
        (late,) = ask(writer)
        await asyncio.sleep(0)
        store.end_round()
        await asyncio.gather(*early)
        await asyncio.sleep(SHARE_SECONDS)
        store.reports[-1](Report(unavailable=OSError("no")))
        await asyncio.sleep(RETRY_SECONDS + 0.001)
        assert not late.done()
        store.end_round()
        await late
        assert [polls for _, _, polls in store.begun] == [True] * 3

    play(scene)


def test_rounds_under_load_poll_when_it_is_time_or_somebody_asks() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        await asyncio.sleep(POLL_SECONDS - 0.01)
        writer.queue.add(make_hold())
        await asyncio.sleep(0.02)
        for _ in range(2):
            writer.queue.add(make_hold())
            store.end_round()
        (asking,) = ask(writer)
        await asyncio.sleep(0)
        writer.queue.add(make_hold())
        for _ in range(2):
            store.end_round()
        await asking
        assert [(len(items), polls) for _, items, polls in store.begun] == [
            (1, False),
            (1, True),
            (1, False),
            (1, True),
        ]

    play(scene)


def test_nobody_waits_for_a_poll_behind_the_end() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        waiting, left = ask(writer, 2)
        await asyncio.sleep(0)
        left.cancel()
        writer.close()
        late = ask(writer)
        await asyncio.sleep(0)
        store.end_round()
        await asyncio.gather(waiting, *late, *ask(writer))

    play(scene)


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


def test_a_process_that_slept_has_no_commit_that_hangs_and_refuses_nobody() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        await asyncio.sleep(POLL_SECONDS)
        await asyncio.sleep(0)
        store.end_round()
        loop, hold = asyncio.get_running_loop(), make_hold()
        assert isinstance(loop, VirtualLoop)
        loop._virtual_seconds += 2 * COMMIT_SECONDS
        await asyncio.sleep(0.001)
        assert [polls for _, _, polls in store.begun] == [True, True]
        store.end_round()
        writer.queue.add(make_hold())  # a round is under way, and another hold waits behind it
        writer.queue.admit(hold)
        loop._virtual_seconds += 2 * COMMIT_SECONDS
        await asyncio.sleep(0.001)
        assert (writer.health.writable, store.broken_off) == (True, 0)
        assert hold.admitted is not None
        assert not hold.admitted.done()
        await asyncio.sleep(COMMIT_SECONDS + POLL_SECONDS)
        assert (writer.health.writable, store.broken_off) == (False, 1)
        assert isinstance(hold.admitted.exception(), LedgerUnavailable)

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


def test_what_comes_during_a_round_is_the_next_batches() -> None:
    async def scene(writer: Writer, store: PlayedStore) -> None:
        for _ in range(MAX_ITEMS + 3):
            writer.queue.add(make_hold())
        for sizes in ([1], [1, MAX_ITEMS], [1, MAX_ITEMS, 2]):
            assert [len(items) for _, items, _ in store.begun] == sizes
            store.end_round()

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
