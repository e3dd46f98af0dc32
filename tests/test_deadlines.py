"""The timer for all deadlines, and limits of single waits: time in which the loop stood does not count."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import pytest

from gateway.deadlines import Ticker, limit_seconds
from gateway.errors import InternalError, Overloaded


@dataclass(eq=False)
class Request:
    """Something in flight; `leaves` is the ticker it leaves at its first tick."""

    leaves: Ticker | None = None
    ticks: list[float] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    ticked: asyncio.Event = field(default_factory=asyncio.Event)

    def tick(self, now: float) -> None:
        self.ticks.append(now)
        self.ticked.set()
        if self.leaves is not None:
            self.leaves.remove(self)

    def fail(self, error: Exception) -> None:
        self.errors.append(error)


@pytest.fixture
async def ticker(monkeypatch: pytest.MonkeyPatch) -> Ticker:
    monkeypatch.setattr("gateway.deadlines.TICK_SECONDS", 0)
    return Ticker()


async def test_it_runs_while_something_is_in_flight_and_starts_again(ticker: Ticker) -> None:
    request = Request()
    ticker.add(request)
    await request.ticked.wait()
    assert ticker._handle is not None
    ticker.remove(request)
    while ticker._handle is not None:  # noqa: ASYNC110 - the tick under way is the last
        await asyncio.sleep(0)
    count = len(request.ticks)
    request.ticked.clear()
    ticker.add(request)
    await request.ticked.wait()
    assert len(request.ticks) > count
    ticker.close()


async def test_all_are_told_one_time_and_what_leaves_disturbs_nobody(ticker: Ticker) -> None:
    leaving, staying = [Request(ticker) for _ in range(3)], Request()
    for one in (*leaving, staying):
        ticker.add(one)
    await staying.ticked.wait()
    while len(staying.ticks) < 3:  # noqa: ASYNC110 - some turns of the loop
        await asyncio.sleep(0)
    assert [one.ticks for one in leaving] == [staying.ticks[:1]] * 3
    assert staying.ticks[0] <= asyncio.get_running_loop().time()
    ticker.close()


@dataclass(eq=False)
class FaultyRequest(Request):
    def tick(self, now: float) -> None:
        super().tick(now)
        raise ZeroDivisionError


async def test_a_request_whose_tick_fails_ends_alone(ticker: Ticker) -> None:
    faulty, others = FaultyRequest(), [Request() for _ in range(3)]
    for one in (*others[:2], faulty, *others[2:]):
        ticker.add(one)
    for one in others:
        await one.ticked.wait()
        one.ticked.clear()
    for one in others:
        await one.ticked.wait()
    assert len(faulty.ticks) == 1
    assert [type(error) for error in faulty.errors] == [InternalError]
    ticker.close()


async def test_a_stop_reaches_all_and_a_close_ends_the_timer(ticker: Ticker) -> None:
    request, error = Request(), Overloaded("stopping")
    ticker.add(request)
    ticker.stop_all(error)
    assert request.errors == [error]
    ticker.close()
    ticker.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert request.ticks == []


async def test_a_tick_that_the_loop_delayed_judges_nobody_but_the_next_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bytes that came meanwhile are read first; a loop that is still blocked judges nevertheless."""
    for name in ("TICK_SECONDS", "STALL_SECONDS"):
        monkeypatch.setattr(f"gateway.deadlines.{name}", 0.01)
    request, ticker = Request(), Ticker()
    ticker.add(request)
    for judged in (0, 1, 1, 2):
        time.sleep(0.05)  # noqa: ASYNC251 - the loop stands
        for _ in range(2):
            await asyncio.sleep(0)
        assert len(request.ticks) == judged
    ticker.close()


async def test_time_in_which_the_loop_stood_does_not_count() -> None:
    """Work done in time is noticed only afterwards, and must not be called late."""
    came = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.1, came.set_result, None)
    async with limit_seconds(0.3):
        await asyncio.sleep(0.01)
        time.sleep(0.5)  # noqa: ASYNC251 - the loop stands
        await came


@pytest.mark.slow
async def test_a_wait_is_over_in_time_while_the_loop_runs_and_never_lasts_without_end() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with limit_seconds(0.2):
            await asyncio.sleep(30)

    async def stand() -> None:
        async with limit_seconds(0.2):
            while True:
                time.sleep(0.15)  # noqa: ASYNC251 - it stands again and again
                await asyncio.sleep(0.001)

    with pytest.raises(TimeoutError):
        await stand()
    assert 0.2 < time.monotonic() - began < 10
