"""One try and its deadlines."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final, cast

import pytest

from gateway.base.errors import UpstreamError, UpstreamTimeout
from gateway.upstream.attempt import Attempt
from gateway.upstream.http1 import Head
from tests.support.records import make_provider
from tests.support.rows import each_row
from tests.upstream.kit import make_attempt

FIRST_BYTE: Final = 10.0
IDLE: Final = 3.0
TOTAL: Final = 60.0
PROVIDER: Final = make_provider(
    first_byte_timeout=FIRST_BYTE, idle_timeout=IDLE, total_timeout=TOTAL
)


@dataclass(slots=True)
class FakeConnection:
    body_reads: int = 0
    awaits_provider: bool = True
    served: int = 1
    errors: list[Exception] = field(default_factory=list)

    def start(self, *_: object) -> FakeConnection:
        """Begin a response, which this plays, too."""
        return self

    def fail(self, error: Exception) -> None:
        self.errors.append(error)


LATE: Final = (
    # The first byte has a deadline, and silence behind it a shorter one, which each read starts anew.
    "9.9 10.1!",
    "read 5 7.9 8.1!",
    "read 2.5 read 5 read 7.5 read 10 12.9 13.1!",
    # The whole try has a deadline, whatever comes.
    "read 30 read 59.9 read 60.1!",
    # A slow caller is not the provider's silence: the clock starts again when the caller reads.
    "read 1 pause 7 resume 9.9 10.1!",
)
"""Reads, pauses and ticks at so many seconds; `!` is the tick at which it is too late."""


def attach(attempt: Attempt, connection: FakeConnection) -> None:
    attempt.start(cast("Any", connection), b"")


def tick(attempt: Attempt, seconds: float) -> None:
    attempt.clock.seconds = seconds
    attempt.tick()


@each_row("steps", LATE)
async def test_each_deadline_ends_an_attempt_at_its_time(steps: str) -> None:
    attempt, connection = make_attempt(PROVIDER), FakeConnection()
    attach(attempt, connection)
    for step in steps.split():
        if step == "read":
            connection.body_reads += 1
        elif step in {"pause", "resume"}:
            connection.awaits_provider = step == "resume"
        else:
            tick(attempt, float(step.rstrip("!")))
            kinds = [type(error) for error in connection.errors]
            assert kinds == [UpstreamTimeout] * step.count("!"), step


async def test_a_stale_connection_is_left_alone() -> None:
    """It may serve another request by now: an error is kept for the connection after it."""
    attempt, connection = make_attempt(PROVIDER), FakeConnection()
    attach(attempt, connection)
    attempt.detach()
    attempt.life.stop(UpstreamTimeout("late"))
    tick(attempt, TOTAL + 1)
    assert connection.errors == []
    with pytest.raises(UpstreamTimeout):
        attach(attempt, FakeConnection())


async def test_a_connection_that_fails_after_two_seconds_was_no_idle_one() -> None:
    attempt, connection = make_attempt(PROVIDER), cast("Any", FakeConnection())
    attach(attempt, connection)
    for seconds, stale in ((1.5, True), (2.0, False)):
        attempt._sent = time.monotonic() - seconds
        assert attempt.is_stale(connection) is stale


@each_row("before", [64 << 10, 0])
async def test_of_an_error_64_kib_are_read(before: int) -> None:
    """They are kept also if more comes with them in one read: the message is at their beginning."""
    attempt = make_attempt(PROVIDER)
    refusal = attempt.open(Head(500, {}, is_persistent=True, _lines=b""))
    refusal.receive(b"x" * before)
    with pytest.raises(UpstreamError):
        refusal.receive(b"x" * (64 << 10 | 1))
    assert attempt.refusal is not None
    assert len(attempt.refusal.take()) == 64 << 10
