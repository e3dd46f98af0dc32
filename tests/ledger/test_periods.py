"""Periods of the UTC calendar: where they begin and end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from gateway.ledger.key_records import Period, Span, find_span
from gateway.times import DAY_MS, to_unix_ms
from tests.support.rows import each_row

LATEST_MS = 253_402_300_799_999 - 62 * DAY_MS
"""Two months before the year 10000, where Python's dates end."""


def at(text: str) -> int:
    return to_unix_ms(datetime.fromisoformat(text).replace(tzinfo=UTC))


@each_row(
    ("period", "moment", "first", "next_"),
    [
        ("day", "2026-05-14T00:00", "2026-05-14", "2026-05-15"),
        ("day", "2026-05-14T23:59:59.999", "2026-05-14", "2026-05-15"),
        ("day", "2026-12-31T12:00", "2026-12-31", "2027-01-01"),
        ("day", "2028-02-28T12:00", "2028-02-28", "2028-02-29"),
        ("week", "2026-05-18T00:00", "2026-05-18", "2026-05-25"),  # a Monday
        ("week", "2026-05-17T23:59:59.999", "2026-05-11", "2026-05-18"),  # a Sunday
        ("week", "2026-12-31T12:00", "2026-12-28", "2027-01-04"),  # over the year's end
        ("week", "2027-01-03T12:00", "2026-12-28", "2027-01-04"),
        ("week", "1970-01-01T00:00", "1969-12-29", "1970-01-05"),  # a Thursday
        ("month", "2026-02-01T00:00", "2026-02-01", "2026-03-01"),
        ("month", "2028-02-29T23:59:59.999", "2028-02-01", "2028-03-01"),  # a leap year
        ("month", "2026-01-31T12:00", "2026-01-01", "2026-02-01"),
        ("month", "2026-12-31T23:59:59.999", "2026-12-01", "2027-01-01"),
        ("month", "2027-01-01T00:00", "2027-01-01", "2027-02-01"),
    ],
)
def test_a_period_begins_and_ends_at_midnight_in_utc(
    period: Period, moment: str, first: str, next_: str
) -> None:
    assert find_span(period, at(moment)) == Span(at(first), at(next_))


@given(period=st.sampled_from(get_args(Period)), at_ms=st.integers(0, LATEST_MS))
def test_periods_follow_each_other_without_a_gap(period: Period, at_ms: int) -> None:
    span = find_span(period, at_ms)
    assert span.contains(at_ms)
    assert span.starts_ms == span.first_day * DAY_MS
    assert find_span(period, span.ends_ms).starts_ms == span.ends_ms
    assert find_span(period, span.ends_ms - 1) == span
    assert not span.contains(span.ends_ms)
    first = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=span.first_day)
    assert {"day": True, "week": first.weekday() == 0, "month": first.day == 1}[period]
