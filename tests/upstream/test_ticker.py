"""One timer for all that is in flight: it runs only while there is something."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import pytest

from gateway.errors import GatewayError, InternalError, Overloaded
from gateway.tasks import STALL_SECONDS
from gateway.upstream.attempt import TICK_SECONDS, Ticker


@dataclass(eq=False)
class Request:
    """Something in flight; `leaves` is the ticker it leaves at its first tick."""

    leaves: Ticker | None = None
    ticks: list[float] = field(default_factory=list)
    errors: list[GatewayError] = field(default_factory=list)
    ticked: asyncio.Event = field(default_factory=asyncio.Event)

    def tick(self, now: float) -> None:
        self.ticks.append(now)
        self.ticked.set()
        if self.leaves is not None:
            self.leaves.remove(self)

    def stop(self, error: GatewayError) -> None:
        self.errors.append(error)


@pytest.fixture
def ticker(monkeypatch: pytest.MonkeyPatch) -> Ticker:
    monkeypatch.setattr("gateway.upstream.attempt.TICK_SECONDS", 0)
    return Ticker()


async def test_all_are_told_the_same_time(ticker: Ticker) -> None:
    requests = [Request(ticker), Request(ticker)]
    for one in requests:
        ticker.add(one)
    for one in requests:
        await one.ticked.wait()
    assert requests[0].ticks == requests[1].ticks
    assert requests[0].ticks[0] <= asyncio.get_running_loop().time()


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


async def test_what_leaves_during_a_tick_disturbs_nobody(ticker: Ticker) -> None:
    leaving, staying = [Request(ticker) for _ in range(3)], Request()
    for one in (*leaving, staying):
        ticker.add(one)
    await staying.ticked.wait()
    while len(staying.ticks) < 3:  # noqa: ASYNC110 - some turns of the loop
        await asyncio.sleep(0)
    assert [len(one.ticks) for one in leaving] == [1, 1, 1]
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


async def test_a_tick_that_the_loop_delayed_judges_nobody_before_the_next() -> None:
    """What a provider sent meanwhile has to be read first."""
    request, ticker = Request(), Ticker()
    ticker.add(request)
    time.sleep(TICK_SECONDS + 2 * STALL_SECONDS)  # noqa: ASYNC251 - the loop stands
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not request.ticks
    await request.ticked.wait()
    ticker.close()
