"""Times as Unix milliseconds in UTC: read the clock, convert dates, format texts."""

from __future__ import annotations

import re
import time
from datetime import UTC, date, datetime, timedelta
from typing import Final, overload

HOUR_MS: Final = 3_600_000
HOURS_PER_DAY: Final = 24
DAY_MS: Final = HOUR_MS * HOURS_PER_DAY

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
"""Seconds of each unit that a duration can have."""
_DURATION: Final = re.compile(r"([0-9]{1,10})([smhdw])")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def unix_ms() -> int:
    """Return the time of the wall clock."""
    return time.time_ns() // 1_000_000


def maybe_seconds(text: str) -> int | None:
    """Parse a whole number with a unit: `90s`, `15m`, `12h`, `30d`, `2w`; None for other texts."""
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def to_unix_ms(moment: datetime) -> int:
    """Convert a datetime that has an offset."""
    # In integers: `timestamp()` is a float, which rounds.
    return (moment - _EPOCH) // _MILLISECOND


@overload
def format_iso(ms: int) -> str: ...
@overload
def format_iso(ms: int | None) -> str | None: ...
def format_iso(ms: int | None) -> str | None:
    """Format a time for tools: 2026-05-14T09:30:00.000Z."""
    if ms is None:
        return None
    return _to_datetime(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_moment(ms: int) -> str:
    """Format a time for people: 2026-05-14 09:30."""
    return f"{_to_datetime(ms):%Y-%m-%d %H:%M}"


def format_day(day: int) -> str:
    """Format a day, counted from the epoch: 2026-05-14."""
    return date.fromordinal(_EPOCH.toordinal() + day).isoformat()


def format_hour(hour: int) -> str:
    """Format the beginning of an hour, counted from the epoch, for tools."""
    return format_iso(hour * HOUR_MS)


def _to_datetime(ms: int) -> datetime:
    return _EPOCH + _MILLISECOND * ms
