"""The timer for all deadlines, and what each kind of deadline makes of time in which the process stood."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from gateway.base.deadlines import Clock, Life, Ticker, limit_seconds
from gateway.base.errors import InternalError, Overloaded
from gateway.base.turns import find_turns, spawn
from tests.api.lives.loop import VirtualLoop
from tests.api.test_sink import Transport, make_sink
from tests.server import test_connections as connections
from tests.server.test_connections import Connection
from tests.support.records import make_provider
from tests.support.rows import told_together
from tests.upstream.kit import make_attempt

BEHIND_SECONDS, LATE_SECONDS = 5.0, 0.1


@dataclass(eq=False)
class Request:
    """Something in flight; it may leave the ticker at its first tick."""

    ticker: Ticker
    leaves: bool = False
    ticks: list[float] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    ticked: asyncio.Event = field(default_factory=asyncio.Event)
    life: Life = field(default_factory=Life)

    def __post_init__(self) -> None:
        self.life.cut = self.errors.append

    def tick(self) -> None:
        self.ticks.append(self.ticker.clock.now)
        self.ticked.set()
        if self.leaves:
            self.ticker.remove(self)


@pytest.fixture
async def ticker(monkeypatch: pytest.MonkeyPatch) -> Ticker:
    monkeypatch.setattr("gateway.base.deadlines.TICK_SECONDS", 0)
    return Ticker()


async def test_it_runs_while_something_is_in_flight_and_starts_again(ticker: Ticker) -> None:
    request = Request(ticker)
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
    leaving, staying = [Request(ticker, leaves=True) for _ in range(3)], Request(ticker)
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
    def tick(self) -> None:
        super().tick()
        raise ZeroDivisionError


async def test_a_request_whose_tick_fails_ends_alone(ticker: Ticker) -> None:
    faulty, others = FaultyRequest(ticker), [Request(ticker) for _ in range(3)]
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
    request, error = Request(ticker), Overloaded("stopping")
    ticker.add(request)
    ticker.stop_all(error)
    assert request.errors == [error]
    ticker.close()
    ticker.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert request.ticks == []


LIMIT: Final = 4.0
STOP_SECONDS: Final = 30.0
Kind = tuple[Callable[[], object], Callable[[], bool]]
"""Something of the other side comes; whether the deadline is over."""


def watch_attempt(*, begins: bool = False, **limits: float) -> Kind:
    """A provider, which is silent before or after its first byte."""
    errors: list[Exception] = []
    response = SimpleNamespace(body_reads=0, awaits_provider=True, fail=errors.append)
    ticker = Ticker()
    attempt = make_attempt(make_provider(**limits), clock=ticker.clock)
    attempt.start(cast("Any", SimpleNamespace(start=lambda *_: response)), b"")
    response.body_reads += begins
    ticker.add(attempt)

    def come() -> None:
        response.body_reads += 1

    return come, lambda: bool(errors)


def watch_sink() -> Kind:
    """A caller that does not read."""
    sink, ticker = make_sink(transport := Transport(stuck=True, resets=False)), Ticker()
    sink._clock, sink._stall_seconds = ticker.clock, LIMIT

    def come() -> None:
        sink._stalled_since = ticker.clock.next_seconds

    come()
    timed: Any = Request(ticker)
    timed.tick = partial(sink.tick, mid_event=False)
    ticker.add(timed)
    return come, lambda: transport.aborted


def watch_wait(total: float = 10**6) -> Kind:
    """A body, a look-up, a handshake, a command: whatever a task waits for."""
    limit = limit_seconds(LIMIT if total > LIMIT else 10**6, total)
    over = asyncio.Event()

    async def wait() -> None:
        try:
            async with limit:
                await asyncio.sleep(10**6)
        except TimeoutError:
            over.set()

    _ = spawn(wait(), name="wait")
    return limit.renew, over.is_set


def watch_connection(*, unread: int) -> Kind:
    """A caller's connection that idles, or whose reply is not read."""
    connection = Connection(transport := connections.Transport(unread))
    watch = connections.watch(connection)
    watch._settings = dataclasses.replace(
        watch._settings, header_seconds=LIMIT, keep_alive_seconds=LIMIT
    )
    _ = spawn(watch.run(), name="watch")

    def come() -> None:
        transport.unread -= transport.unread > 1
        connection.replied += 1

    return come, lambda: transport.aborted


QUIET: Final[dict[str, Callable[[], Kind]]] = {
    "first byte": lambda: watch_attempt(first_byte_timeout=LIMIT),
    "silence": lambda: watch_attempt(begins=True, idle_timeout=LIMIT),
    "unread stream": watch_sink,
    "wait": watch_wait,
    "idle connection": lambda: watch_connection(unread=0),
    "unread reply": lambda: watch_connection(unread=9),
}
TOTAL: Final[dict[str, Callable[[], Kind]]] = {
    "total": lambda: watch_attempt(total_timeout=LIMIT),
    "whole body": lambda: watch_wait(LIMIT),
}
SCENES: Final = (
    ("3", "5.5!"),
    # What came while the process stood is found after the pause, and the end of it, too.
    ("3 stop come 3", "3 stop 0.6"),
    # Whoever stays silent gets the whole time anew; a total time goes on.
    ("3 stop 2.4 2.8!", "3 stop 0.6 2!"),
    # A loop that is always late judges nevertheless, and so does one that stands again and again.
    ("late late!", "late late!"),
    ("3 again again!", "3 again!"),
)
"""Events of quiet times and of total ones, in seconds; `!`: by then the deadline is over."""


async def play(make: Callable[[], Kind], steps: str) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    come, is_over = make()
    await asyncio.sleep(0.01)
    for step in steps.split():
        match step.rstrip("!"):
            case "come":
                come()
            case "stop":
                loop._virtual_seconds += STOP_SECONDS
                await asyncio.sleep(0.01)
            case "late":
                for _ in range(30):
                    loop._virtual_seconds += 8 * LATE_SECONDS
                    await asyncio.sleep(0.01)
            case "again":
                for _ in range(4):
                    loop._virtual_seconds += STOP_SECONDS
                    await asyncio.sleep(2)
            case seconds:
                await asyncio.sleep(float(seconds))
        assert is_over() == step.endswith("!") or step == "late", f"{step} in {steps}"


def test_nobody_is_judged_by_time_in_which_the_process_stood() -> None:
    with told_together() as row:
        for kinds, column in ((QUIET, 0), (TOTAL, 1)):
            for name, make in kinds.items():
                for scene in SCENES:
                    with row(f"{name}: {scene[column]}"), closing(VirtualLoop()) as loop:
                        loop.run_until_complete(play(make, scene[column]))


async def test_a_clock_stands_until_all_that_came_is_handled() -> None:
    clock, now = Clock(), 0.0
    steps = ((0.1, 0.1), (30, 0.1), (0.1, 0.1), (0.1, 0.5), (0.1, 0.6))
    find_turns().defer("a provider", lambda: None)
    for number, (seconds, expected) in enumerate(steps):
        if number == 3:
            await asyncio.sleep(0)  # the turn in which the last of it is handled
        clock.expect(now, 0.1)
        now += seconds
        clock.move(now)
        assert clock.seconds == pytest.approx(expected)
    busy, now = Clock(lambda: True), 0.0
    while busy.seconds == 0:
        busy.expect(now, 0.1)
        now += 0.1 + 2 * LATE_SECONDS * (now == 0)
        busy.move(now)
    assert busy.seconds == pytest.approx(BEHIND_SECONDS, abs=0.2)
