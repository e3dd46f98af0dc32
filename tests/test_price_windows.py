"""Windows of prices: hours, weekdays and dates in UTC, against the calendar of the standard library."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from gateway.times import ALWAYS, DAY_MS, Window, read_date, read_hours, read_weekdays, to_unix_ms
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

MINUTE_MS = 60_000


def at(text: str) -> int:
    return to_unix_ms(datetime.fromisoformat(text).replace(tzinfo=UTC))


DEEPSEEK = Window(read_hours(["01:00-04:00", "06:00-10:00"]), read_weekdays("mon-fri"))


@each_row(
    ("moment", "inside"),
    [
        ("2026-11-23T01:00:00", True),  # a Monday
        ("2026-11-23T00:59:59.999", False),
        ("2026-11-23T03:59:59.999", True),
        ("2026-11-23T04:00:00", False),
        ("2026-11-27T09:59:00", True),
        ("2026-11-28T09:59:00", False),  # a Saturday
        ("2026-11-22T06:00:00", False),
    ],
)
def test_hours_begin_at_their_first_minute_and_end_before_their_last(
    moment: str, *, inside: bool
) -> None:
    assert DEEPSEEK.has(at(moment)) is inside


@each_row(
    ("moment", "inside"),
    [
        ("2026-11-28T22:00:00", True),
        ("2026-11-28T00:00:00", True),  # the hours after midnight are those of the day itself
        ("2026-11-29T00:00:00", False),
        ("2026-11-28T04:00:00", False),
    ],
)
def test_hours_may_go_over_midnight(moment: str, *, inside: bool) -> None:
    window = Window(read_hours("22:00-04:00"), read_weekdays("sat"))
    assert window.has(at(moment)) is inside


def test_an_introductory_price_ends_by_itself() -> None:
    window = Window(from_ms=read_date(date(2026, 12, 1)), until_ms=read_date(date(2026, 12, 31)))
    assert not window.has(at("2026-11-30T23:59:59.999"))
    assert window.has(at("2026-12-01T00:00:00"))
    assert window.has(at("2026-12-30T23:59:59.999"))
    assert not window.has(at("2026-12-31T00:00:00"))


def test_a_time_of_another_zone_is_that_moment() -> None:
    noon = datetime(2026, 12, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    assert read_date(noon) == at("2026-12-01T10:00:00")
    assert read_date(noon.replace(tzinfo=None)) == at("2026-12-01T12:00:00")


spans = st.tuples(st.integers(0, 1439), st.integers(0, 1440)).filter(lambda one: one[0] != one[1])
hours = st.none() | st.lists(spans, min_size=1, max_size=3).map(tuple)
weekdays = st.none() | st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days)))
moments = st.integers(at("2026-11-01T00:00:00"), at("2026-12-15T00:00:00"))


@st.composite
def windows(draw: st.DrawFn) -> Window:
    begin, end = draw(st.none() | moments), draw(st.none() | moments)
    if begin is not None and end is not None and begin >= end:
        begin, end = end, begin + 1
    return Window(draw(hours), draw(weekdays), begin, end)


def has_by_calendar(window: Window, at_ms: int) -> bool:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    minute = moment.hour * 60 + moment.minute
    in_hours = window.hours is None or any(
        begin <= minute < end if begin < end else minute >= begin or minute < end
        for begin, end in window.hours
    )
    in_days = window.weekdays is None or moment.weekday() in window.weekdays
    begun = window.from_ms is None or window.from_ms <= at_ms
    return in_hours and in_days and begun and (window.until_ms is None or at_ms < window.until_ms)


@fuzz(300)
@given(windows(), moments)
def test_a_window_has_the_times_of_the_calendar(window: Window, at_ms: int) -> None:
    assert window.has(at_ms) == has_by_calendar(window, at_ms)


def sample(*of: Window) -> range | list[int]:
    """List moments among which any two windows that meet have one: each edge, and two weeks."""
    edges = [ms for one in of for ms in (one.from_ms, one.until_ms) if ms is not None]
    starts = [at("2026-11-01T00:00:00"), at("2026-12-15T00:00:00"), *edges]
    steps = range(0, 8 * DAY_MS, MINUTE_MS)
    found = {start + step for start in starts for step in steps}
    return sorted(
        found | {ms - 1 for ms in edges} | {ms - 8 * DAY_MS + s for ms in edges for s in steps}
    )


@fuzz(15)
@given(windows(), windows())
def test_windows_meet_and_contain_as_their_minutes_do(one: Window, other: Window) -> None:
    """Within a minute an edge of dates decides nothing else: it is rounded to whole minutes."""
    both = [(one.has(ms), other.has(ms)) for ms in sample(one, other)]
    if any(a and b for a, b in both):
        assert one.meets(other)
    if any(b and not a for a, b in both):
        assert not one.contains(other, other)
    assert one.meets(other) == other.meets(one)
    assert one.contains(one, one)
    assert ALWAYS.contains(one, one)


def test_windows_that_never_meet_are_known_to() -> None:
    week, end = Window(weekdays=read_weekdays("mon-fri")), Window(weekdays=read_weekdays("sat-sun"))
    assert not week.meets(end)
    saturday = Window(from_ms=at("2026-11-28T00:00:00"), until_ms=at("2026-11-29T00:00:00"))
    assert not week.meets(saturday)
    assert end.meets(saturday)
    assert end.contains(saturday, saturday)
    assert not saturday.contains(end, end)
    early, late = Window(read_hours("00:00-12:00")), Window(read_hours("12:00-24:00"))
    assert not early.meets(late)
    tuesday = Window(read_hours("03:00-05:00"), read_weekdays("tue"))
    assert early.contains(tuesday, ALWAYS)
    assert tuesday.contains(
        Window(weekdays=read_weekdays("tue")), Window(read_hours("03:00-04:00"))
    )


@fuzz(30)
@given(windows(), moments)
def test_a_time_is_found_in_each_window_that_has_any(window: Window, now_ms: int) -> None:
    found = window.find_time_ms(now_ms)
    if window.has(now_ms):
        assert found == now_ms
    elif any(window.has(ms) for ms in sample(window)):
        assert window.has(found)


def test_a_window_is_told_in_words() -> None:
    window = Window(DEEPSEEK.hours, DEEPSEEK.weekdays, at("2026-12-01T00:00:00"), None)
    assert window.words == (
        "hours 01:00-04:00 06:00-10:00",
        "weekdays mon tue wed thu fri",
        "from 2026-12-01 00:00",
    )
    assert ALWAYS.words == ()
