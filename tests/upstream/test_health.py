"""Circuit breakers."""

from __future__ import annotations

from gateway.upstream.rests import FAILURES, OPEN_SECONDS, Breaker


def make_open(now: float = 0.0) -> Breaker:
    breaker = Breaker()
    for number in range(FAILURES):
        assert breaker.fail(now) == (number == FAILURES - 1)
    return breaker


def test_failures_in_a_row_open_it() -> None:
    """One less does not, and a success in between begins the count anew."""
    breaker = Breaker()
    for _ in range(FAILURES - 1):
        breaker.fail(0.0)
    breaker.succeed()
    for _ in range(FAILURES - 1):
        breaker.fail(0.0)
    assert breaker.wait_seconds(0.0) == 0.0
    breaker.fail(0.0)
    assert breaker.wait_seconds(0.0) == OPEN_SECONDS


def test_one_probe_goes_out_when_the_time_is_over() -> None:
    breaker = make_open()
    assert breaker.wait_seconds(OPEN_SECONDS - 1) == 1.0
    assert breaker.wait_seconds(OPEN_SECONDS) == 0.0
    breaker.begin()
    assert breaker.wait_seconds(OPEN_SECONDS) > 0.0, "a second one has to wait for the probe"


def test_probe_decides() -> None:
    """It closes the breaker, or opens it for as long again."""
    breaker = make_open()
    breaker.begin()
    assert not breaker.fail(OPEN_SECONDS), "it was open already"
    assert breaker.wait_seconds(OPEN_SECONDS) == OPEN_SECONDS
    breaker.begin()
    assert breaker.succeed()
    assert breaker.wait_seconds(OPEN_SECONDS) == 0.0


def test_failures_of_one_instant_count_once_where_they_may_have_one_cause() -> None:
    breaker = Breaker()
    for _ in range(2 * FAILURES):
        assert not breaker.fail(5.0, at_once=True)
    assert not breaker.is_open
    for _ in range(FAILURES - 1):
        breaker.fail(5.0)
    assert breaker.is_open, "others count each"


def test_probe_that_says_nothing_makes_room_for_another() -> None:
    breaker = make_open()
    breaker.begin()
    breaker.forget()
    assert breaker.wait_seconds(OPEN_SECONDS) == 0.0


def test_it_tells_how_it_stands() -> None:
    """The seconds are whole, and 0 when the next request is the probe, which is told in flight."""
    assert Breaker().describe(0.0) == ("closed", 0)
    breaker = make_open()
    assert breaker.describe(0.0) == ("open", OPEN_SECONDS)
    assert breaker.describe(OPEN_SECONDS - 0.1) == ("open", 1)
    assert breaker.describe(OPEN_SECONDS) == ("open", 0), "no probe is in flight yet"
    breaker.begin()
    assert breaker.describe(OPEN_SECONDS + 5) == ("probing", 0)
    breaker.fail(OPEN_SECONDS + 5)
    assert breaker.describe(OPEN_SECONDS + 5) == ("open", OPEN_SECONDS)
    breaker.begin()
    breaker.succeed()
    assert breaker.describe(OPEN_SECONDS + 5) == ("closed", 0)
