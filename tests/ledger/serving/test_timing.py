"""When rounds begin, poll, commit and hang, on a clock that jumps to the next timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing

import pytest

from gateway.base.errors import LedgerUnavailable
from gateway.base.tasks import PromptFuture
from gateway.ledger.base import COMMIT_SECONDS, Account, Hold, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.serving.memory import Memory, take_hold
from gateway.ledger.serving.queue import (
    LINGER_SECONDS,
    MAX_ITEMS,
    Item,
    Observations,
    ObservingEnd,
    Report,
    RoundEnd,
    Store,
)
from gateway.ledger.serving.writer import (
    POLL_SECONDS,
    RETRY_SECONDS,
    SHARE_SECONDS,
    Polls,
    Rounds,
    Writer,
)
from tests.api.lives.loop import VirtualLoop
from tests.ledger.contract.kit import NOW_MS, admission, settlement

LONG = 1000.0


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with closing(VirtualLoop()) as loop:
        yield loop


class Play:
    """Rounds that take no time, or end when told; `begun` are the times at which they began."""

    def __init__(self, loop: VirtualLoop, do: Callable[[Rounds], object]) -> None:
        self.begun: list[float] = []
        self._loop = loop
        loop.run_until_complete(self._start(do))

    async def _start(self, do: Callable[[Rounds], object]) -> None:
        self.rounds = Rounds(lambda: self.begun.append(self._loop.time()))
        do(self.rounds)
        await self._wait()

    def then(self, do: Callable[[Rounds], object]) -> list[float]:
        """Do something to the rounds; return how long after it each of them began."""
        self.begun.clear()
        began = self._loop.time()
        self._loop.call_soon(do, self.rounds)
        self._loop.run_until_complete(self._wait())
        return [at - began for at in self.begun]

    async def _wait(self) -> None:
        await asyncio.sleep(LONG)


def hurry(rounds: Rounds) -> None:
    rounds.hurry()
    rounds.hurry()


def end(rounds: Rounds) -> None:
    rounds.end_one(pauses=False)


def pause(rounds: Rounds) -> None:
    rounds.end_one(pauses=True)
    rounds.hurry()


def hurry_within(rounds: Rounds) -> None:
    rounds.hurry_within(0.5)
    rounds.hurry_within(0.1)


@pytest.mark.parametrize(
    ("do", "begun"), [(lambda _: None, []), (hurry, [0]), (hurry_within, [0.5])]
)
def test_a_round_begins_once_when_somebody_needs_it(
    loop: VirtualLoop, do: Callable[[Rounds], object], begun: list[float]
) -> None:
    assert Play(loop, do).begun == begun


def test_who_comes_during_a_round_gets_the_next_one(loop: VirtualLoop) -> None:
    play = Play(loop, hurry)
    assert play.then(hurry) == [], "one round at a time"
    assert play.then(end) == [0]
    assert play.then(end) == [], "nobody waits"
    assert play.then(hurry) == [0]


def test_a_retry_waits_its_time_whoever_hurries(loop: VirtualLoop) -> None:
    play = Play(loop, hurry)
    assert play.then(pause) == pytest.approx([RETRY_SECONDS])
    assert play.then(end) == [], "its round had all that came in the pause"


async def test_waits_of_one_time_share_a_poll_that_begins_after_them() -> None:
    polls = Polls()
    assert not begin(polls), "there was one a moment ago"
    first, second = polls.ask(), polls.ask()
    assert begin(polls)
    late = polls.ask()
    polls.finish()
    assert (first.done(), second.done(), late.done()) == (True, True, False)
    assert begin(polls)
    polls.finish()
    assert late.done()


async def test_a_poll_that_failed_is_answered_by_the_next_one() -> None:
    polls = Polls()
    asked = polls.ask()
    assert begin(polls)
    assert not asked.done()
    assert begin(polls, is_idle=True), "an idle round always polls"
    polls.finish()
    assert asked.done()


async def test_rounds_under_load_poll_when_it_is_time() -> None:
    polls, now = Polls(), asyncio.get_running_loop().time()
    assert not polls.begin_if_due(now + POLL_SECONDS - 0.01, is_idle=False)
    assert polls.begin_if_due(now + POLL_SECONDS + 0.01, is_idle=False)
    assert not polls.begin_if_due(now + 2 * POLL_SECONDS, is_idle=False)


async def test_nobody_waits_for_a_poll_behind_the_end() -> None:
    polls = Polls()
    looked_for, asked = polls.ask(), None
    begin(polls)
    asked = polls.ask()
    asked.cancel()
    polls.close()
    assert looked_for.done()


def begin(polls: Polls, *, is_idle: bool = False) -> bool:
    return polls.begin_if_due(asyncio.get_running_loop().time(), is_idle=is_idle)


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

    def start_observing(self, observed: Observations, *, report: ObservingEnd) -> None:
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
        ended.settled = PromptFuture()
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
