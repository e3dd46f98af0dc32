"""When the writer wakes and when it polls, on a clock that jumps to the next timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.ledger.sqlite.serving.schedule import (
    LINGER_SECONDS,
    POLL_SECONDS,
    RETRY_SECONDS,
    Alarm,
    Polls,
)
from tests.api.lives.loop import VirtualLoop


def play(sleep: Callable[[Alarm], object], *, is_retry: bool = False) -> float:
    """Return how long the writer slept after something was done to its alarm."""

    async def measure() -> float:
        alarm, loop = Alarm(), asyncio.get_running_loop()
        sleep(alarm)
        begun = loop.time()
        await alarm.sleep(is_retry=is_retry)
        slept = loop.time() - begun
        await alarm.sleep(is_retry=False)
        assert loop.time() - begun - slept == pytest.approx(POLL_SECONDS), "it rings once"
        return slept

    loop = VirtualLoop()
    try:
        return loop.run_until_complete(measure())
    finally:
        loop.close()


def ring_twice(alarm: Alarm) -> None:
    alarm.ring_soon()
    alarm.ring()


@pytest.mark.parametrize(
    ("do", "seconds"),
    [
        (lambda _: None, POLL_SECONDS),
        (Alarm.ring_soon, LINGER_SECONDS),
        (lambda alarm: alarm.ring(), 0),
        (ring_twice, 0),
    ],
)
def test_the_sleep_is_as_short_as_somebody_needs(
    do: Callable[[Alarm], object], seconds: float
) -> None:
    """An admission lingers for its settlement; who waits for a commit does not."""
    assert play(do) == pytest.approx(seconds)


@pytest.mark.parametrize("do", [lambda _: None, Alarm.ring_soon, lambda alarm: alarm.ring()])
def test_a_retry_waits_its_time_whoever_rings(do: Callable[[Alarm], object]) -> None:
    assert play(do, is_retry=True) == pytest.approx(RETRY_SECONDS)


async def test_waits_of_one_time_share_a_poll_that_begins_after_them() -> None:
    polls = Polls()
    assert not polls.begin_if_due(is_idle=False), "there was one a moment ago"
    first, second = polls.ask(), polls.ask()
    assert polls.begin_if_due(is_idle=False)
    late = polls.ask()
    polls.finish()
    assert (first.done(), second.done(), late.done()) == (True, True, False)
    assert polls.begin_if_due(is_idle=False)
    polls.finish()
    assert late.done()


async def test_a_poll_that_failed_is_answered_by_the_next_one() -> None:
    polls = Polls()
    asked = polls.ask()
    assert polls.begin_if_due(is_idle=False)
    assert not asked.done()
    assert polls.begin_if_due(is_idle=True), "an idle round always polls"
    polls.finish()
    assert asked.done()


async def test_nobody_waits_for_a_poll_behind_the_end() -> None:
    polls = Polls()
    looked_for, asked = polls.ask(), None
    polls.begin_if_due(is_idle=False)
    asked = polls.ask()
    asked.cancel()
    polls.close()
    assert looked_for.done()
