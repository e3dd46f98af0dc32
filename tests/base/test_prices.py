"""Price lists: the text of a price, and windows against the library's calendar.

Which rule applies to what was served, and what a request may cost, is in `examples.txt`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from gateway.base.money import Price
from gateway.base.prices import AppliedPrice, read_price
from gateway.base.times import Window, read_date, to_unix_ms
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

BASE = Price(10, 40, 1, 12)


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
