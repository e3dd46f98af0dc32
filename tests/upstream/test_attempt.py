"""The deadlines of one try at one route, and how it ends early: with a clock of the test's own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, cast

import pytest

from gateway.errors import Overloaded, UpstreamTimeout
from gateway.upstream.attempt import Attempt
from tests.support.records import make_provider

FIRST_BYTE: Final = 10.0
IDLE: Final = 3.0
TOTAL: Final = 60.0
PROVIDER: Final = make_provider(
    first_byte_timeout=FIRST_BYTE, idle_timeout=IDLE, total_timeout=TOTAL
)


@dataclass(slots=True)
class FakeConnection:
    body_reads: int = 0
    paused: bool = False
    errors: list[Exception] = field(default_factory=list)

    def fail(self, error: Exception) -> None:
        self.errors.append(error)


@dataclass(slots=True)
class Scene:
    """An attempt whose request was sent at `started`."""

    attempt: Attempt
    connection: FakeConnection
    started: float

    def tick(self, seconds: float) -> bool:
        """Look at the clock so long after the start; return whether it failed."""
        self.attempt.tick(self.started + seconds)
        return bool(self.connection.errors)


@pytest.fixture
async def scene() -> Scene:
    attempt, connection = Attempt(PROVIDER), FakeConnection()
    started = asyncio.get_running_loop().time()
    attempt.attach(cast("Any", connection))
    return Scene(attempt, connection, started)


async def test_the_first_byte_has_a_deadline(scene: Scene) -> None:
    assert not scene.tick(FIRST_BYTE - 0.1)
    assert scene.tick(FIRST_BYTE + 0.1)
    assert isinstance(scene.connection.errors[0], UpstreamTimeout)


async def test_silence_behind_the_first_byte_has_a_shorter_deadline(scene: Scene) -> None:
    scene.connection.body_reads += 1
    assert not scene.tick(5.0)
    assert not scene.tick(5.0 + IDLE - 0.1)
    assert scene.tick(5.0 + IDLE + 0.1)


async def test_each_read_starts_the_silence_anew(scene: Scene) -> None:
    for seconds in range(1, 20):
        scene.connection.body_reads += 1
        assert not scene.tick(seconds * (IDLE - 0.5))


async def test_the_whole_try_has_a_deadline_whatever_comes(scene: Scene) -> None:
    scene.connection.body_reads += 1
    assert not scene.tick(TOTAL - 0.1)
    scene.connection.body_reads += 1
    assert scene.tick(TOTAL + 0.1)


async def test_a_slow_caller_is_not_the_providers_silence(scene: Scene) -> None:
    """While the caller does not read, the provider cannot send; its clock starts again after."""
    scene.connection.body_reads += 1
    scene.tick(1.0)
    scene.connection.paused = True
    assert not scene.tick(1.0 + 2 * IDLE)
    scene.connection.paused = False
    assert not scene.tick(1.0 + 3 * IDLE - 0.1)
    assert scene.tick(1.0 + 3 * IDLE + 0.1)


async def test_the_bytes_of_an_earlier_response_are_no_first_byte() -> None:
    attempt, connection = Attempt(PROVIDER), FakeConnection(body_reads=7)
    scene = Scene(attempt, connection, asyncio.get_running_loop().time())
    attempt.attach(cast("Any", connection))
    assert not scene.tick(IDLE + 1)
    assert scene.tick(FIRST_BYTE + 1)


async def test_an_attempt_that_ends_while_connecting_sends_nothing() -> None:
    sent: list[bool] = []
    attempt = Attempt(PROVIDER, lambda: sent.append(True))
    error = Overloaded("The gateway was stopped.")
    attempt.stop(error)
    attempt.fail(UpstreamTimeout("later"))
    with pytest.raises(Overloaded) as raised:
        attempt.attach(cast("Any", FakeConnection()))
    assert raised.value is error
    assert sent == []


async def test_a_stale_connection_is_left_alone(scene: Scene) -> None:
    """It may serve another request by now: an error is kept for the connection after it."""
    scene.attempt.detach()
    scene.attempt.fail(UpstreamTimeout("late"))
    scene.tick(TOTAL + 1)
    assert scene.connection.errors == []
    with pytest.raises(UpstreamTimeout):
        scene.attempt.attach(cast("Any", FakeConnection()))
