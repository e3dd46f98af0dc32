"""Rules that conflict, and windows that meet, against the minutes that they have."""

from __future__ import annotations

from hypothesis import given

from gateway.base.times import ALWAYS, DAY_MINUTES, DAY_MS, MINUTE_MS, Window
from gateway.extras.advice.overlaps import contains, find_time_ms, meets
from tests.base.test_prices import at, moments, windows
from tests.support.fuzz import fuzz

MORNING, EVENING = Window(hours=((0, 720),)), Window(hours=((720, DAY_MINUTES),))


def sample(*of: Window) -> list[int]:
    """List moments among which any two windows that meet have one.

    What they have in common, or one of them alone, begins at an edge of a date, an hour or a day.
    """
    edges = [ms for one in of for ms in (one.from_ms, one.until_ms) if ms is not None]
    minutes = {0, *(minute for one in of for span in one.hours or () for minute in span)}
    starts = [at("2026-11-01T00:00:00"), at("2026-12-15T00:00:00"), *edges]
    days = [
        ms - ms % DAY_MS + ms % MINUTE_MS + day * DAY_MS for ms in starts for day in range(-8, 9)
    ]
    found = {day + minute * MINUTE_MS for day in days for minute in minutes}
    return sorted(found.union(edges, [ms - 1 for ms in edges]))


@fuzz(150)
@given(windows(), windows())
def test_windows_meet_and_contain_as_their_minutes_do(one: Window, other: Window) -> None:
    """Within a minute an edge of dates decides nothing else: it is rounded to whole minutes."""
    both = [(one.has(ms), other.has(ms)) for ms in sample(one, other)]
    if any(a and b for a, b in both):
        assert meets(one, other)
    if any(b and not a for a, b in both):
        assert not contains(one, other, other)
    assert meets(one, other) == meets(other, one)
    assert contains(one, one, one)
    assert contains(ALWAYS, one, one)


@fuzz(150)
@given(windows(), moments)
def test_a_time_is_found_in_each_window_that_has_any(window: Window, now_ms: int) -> None:
    found = find_time_ms(window, now_ms)
    if window.has(now_ms):
        assert found == now_ms
    elif any(window.has(ms) for ms in sample(window)):
        assert window.has(found)
