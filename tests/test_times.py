"""Moments: Unix milliseconds and texts, UTC throughout."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from gateway.times import DAY_MS, format_day, format_hour, format_iso, format_moment, to_unix_ms

MOMENT_MS = 1_700_000_000_001


def test_a_moment_for_tools_is_utc_to_the_millisecond() -> None:
    assert format_iso(MOMENT_MS) == "2023-11-14T22:13:20.001Z"
    assert format_iso(None) is None


def test_a_moment_for_people_is_utc_to_the_minute() -> None:
    assert format_moment(MOMENT_MS) == "2023-11-14 22:13"


def test_days_and_hours_are_counted_from_the_epoch() -> None:
    assert format_day(0) == "1970-01-01"
    assert format_day(MOMENT_MS // DAY_MS) == "2023-11-14"
    assert format_day(-719_162) == "0001-01-01"
    assert format_hour(25) == "1970-01-02T01:00:00.000Z"


def test_a_date_is_a_whole_number_of_milliseconds_whatever_its_offset() -> None:
    """Rounded down, on both sides of the epoch: no float is in between."""
    east = timezone(timedelta(hours=2))
    assert to_unix_ms(datetime(1970, 1, 1, 2, 0, 0, 1999, tzinfo=east)) == 1
    assert to_unix_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1
