"""Price lists: rules that conflict, the text of a price, and windows against the library's calendar.

Which rule applies to what was served, and what a request may cost, is in `examples.txt`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.base.money import Price
from gateway.base.prices import AppliedPrice, PriceList, PriceRule, read_price
from gateway.base.times import ALWAYS, DAY_MINUTES, DAY_MS, MINUTE_MS, Window, read_date, to_unix_ms
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

BASE = Price(10, 40, 1, 12)


MORNING, EVENING = Window(hours=((0, 720),)), Window(hours=((720, DAY_MINUTES),))


@each_row(
    ("first", "second", "conflict"),
    [
        ({"input_above": 1}, {"speed": "fast"}, True),
        ({"input_above": 1}, {"input_above": 2}, False),
        ({"input_above": 1, "speed": "fast"}, {"speed": "fast"}, False),
        ({"speed": "fast"}, {"speed": "standard"}, False),
        ({"speed": "fast"}, {"speed": "fast"}, False),
        ({"speed": "fast", "inference_geo": "us"}, {"speed": "fast", "input_above": 5}, True),
        ({"window": MORNING}, {"window": EVENING}, False),
        ({"window": MORNING}, {"speed": "fast"}, True),
        ({"window": MORNING, "speed": "fast"}, {"window": EVENING}, False),
        ({"window": Window(weekdays=(1,))}, {"window": MORNING}, True),
        ({"window": Window(weekdays=(1,))}, {"window": Window(((0, 9),), (1,))}, False),
        ({"window": Window(until_ms=DAY_MINUTES * MINUTE_MS)}, {"window": Window(weekdays=(4,))}, False),
        ({"window": Window(from_ms=0, until_ms=9)}, {"window": Window(from_ms=5)}, True),
    ],
)  # fmt: skip
def test_rules_conflict_if_both_may_hold_and_neither_contains_the_other(
    first: dict[str, Any], second: dict[str, Any], *, conflict: bool
) -> None:
    pair = PriceRule(BASE, **first), PriceRule(BASE, **second)
    for rules in (pair, pair[::-1]):
        assert list(PriceList(BASE, rules).find_conflicts()) == ([rules] if conflict else [])


@each_row(
    "price",
    [
        BASE,
        Price(0, 0, 0, 0),
        Price(10**21, 10**21, 10**21, 10**21, 10**21, 10**21, 10**21),
        Price(1, 2, 3, 4, 5, 6, 7, 0, None, 9, None, 1_200_000, {"maps": 3, "x_search": 10**15}),
        Price(1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0),
    ],
)
@each_row("rule", ["", "input_above 200000, speed fast", 'service_tier größer 🙂\t"\\'])
def test_the_text_of_a_price_tells_all_of_it(price: Price, rule: str) -> None:
    applied = AppliedPrice(price, rule)
    again = read_price(applied.text)
    assert again == applied
    assert (again.text, again.id) == (applied.text, applied.id)
    assert 0 <= applied.id < 2**63


def test_prices_that_differ_have_different_ids() -> None:
    found = {
        AppliedPrice(Price(1, 1, 1, 1, tools=tools, audio_input=audio), rule).id
        for tools in ({}, {"a": 1}, {"a": 2}, {"b": 1})
        for audio in (None, 0, 1)
        for rule in ("", "x")
    }
    assert len(found) == 4 * 3 * 2


def at(text: str) -> int:
    return to_unix_ms(datetime.fromisoformat(text).replace(tzinfo=UTC))


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
        assert one.meets(other)
    if any(b and not a for a, b in both):
        assert not one.contains(other, other)
    assert one.meets(other) == other.meets(one)
    assert one.contains(one, one)
    assert ALWAYS.contains(one, one)


@fuzz(150)
@given(windows(), moments)
def test_a_time_is_found_in_each_window_that_has_any(window: Window, now_ms: int) -> None:
    found = window.find_time_ms(now_ms)
    if window.has(now_ms):
        assert found == now_ms
    elif any(window.has(ms) for ms in sample(window)):
        assert window.has(found)
