"""When rounds begin and when they poll, on a clock that jumps to the next timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from gateway.ledger.serving.writer import POLL_SECONDS, RETRY_SECONDS, Polls, Rounds
from tests.api.lives.loop import VirtualLoop

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
