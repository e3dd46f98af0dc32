"""Times as Unix milliseconds in UTC: read the clock, convert dates, format texts.

Also the windows in which a price applies: hours of the day, days of the week, from a date, until a date.
They are in UTC, as vendors state them. A request's time is the time of its admission.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Final, TypeVar, overload

MINUTE_MS: Final = 60_000
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


DAY_MINUTES: Final = DAY_MS // MINUTE_MS
WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
WEEK_MINUTES: Final = len(WEEKDAYS) * DAY_MINUTES
_EPOCH_MINUTE: Final = WEEKDAYS.index("thu") * DAY_MINUTES
"""The minute of the week in which the epoch began."""
_FAR_MS: Final = 2**62
"""A time after all others: the end of an open window."""

Read = TypeVar("Read")
Span = tuple[int, int]
"""Minutes of the day, the end exclusive. If the end is before the beginning, the span crosses
midnight."""


def _mask(begin: int, end: int) -> int:
    return (1 << end) - (1 << begin)


def find_minute(at_ms: int) -> int:
    """Return the minute of the week."""
    return (at_ms // MINUTE_MS + _EPOCH_MINUTE) % WEEK_MINUTES


@dataclass(frozen=True, slots=True)
class Window:
    """Times at which a rule holds; None stands for any."""

    hours: tuple[Span, ...] | None = None
    weekdays: tuple[int, ...] | None = None
    """From 0 for Monday. Hours after midnight belong to the next day."""
    from_ms: int | None = None
    until_ms: int | None = None
    """The end, exclusive."""
    minutes: int = field(init=False, repr=False, compare=False)
    """A bit for each minute of the week, from Monday on."""

    def __post_init__(self) -> None:
        spans = self.hours or ((0, DAY_MINUTES),)
        days = range(len(WEEKDAYS)) if self.weekdays is None else self.weekdays
        of_day = 0
        for begin, end in spans:
            of_day |= (
                _mask(begin, end) if begin < end else _mask(begin, DAY_MINUTES) | _mask(0, end)
            )
        week = 0
        for day in days:
            week |= of_day << day * DAY_MINUTES
        object.__setattr__(self, "minutes", week)

    @property
    def words(self) -> tuple[str, ...]:
        """The conditions in words, such as `hours 01:00-04:00`."""
        told = ((name, value) for name, value in self.describe().items() if value is not None)
        return tuple(f"{name} {v if isinstance(v, str) else ' '.join(v)}" for name, v in told)

    def describe(self) -> Mapping[str, str | list[str] | None]:
        """Name the conditions for JSON as gateway.toml does."""
        hours, days = self.hours, self.weekdays
        return {
            "hours": None if hours is None else [_format_span(one) for one in hours],
            "weekdays": None if days is None else [WEEKDAYS[one] for one in days],
            "from": None if self.from_ms is None else format_moment(self.from_ms),
            "until": None if self.until_ms is None else format_moment(self.until_ms),
        }

    def has(self, at_ms: int) -> bool:
        if self is ALWAYS:  # true for nearly every rule; called at least once per request
            return True
        begin, end = self.dates
        return begin <= at_ms < end and bool(self.minutes >> find_minute(at_ms) & 1)

    @property
    def dates(self) -> Span:
        return self.from_ms or 0, _FAR_MS if self.until_ms is None else self.until_ms


ALWAYS: Final = Window()


def _format_span(span: Span) -> str:
    return "-".join(f"{minute // 60:02d}:{minute % 60:02d}" for minute in span)


_SPAN: Final = re.compile(r"([01]\d|2[0-4]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)", re.ASCII)


def _read_span(text: str) -> Span | None:
    found = _SPAN.fullmatch(text)
    if found is None:
        return None
    begin, end = (60 * int(found[at]) + int(found[at + 1]) for at in (1, 3))
    return (begin, end) if begin != end and max(begin, end) <= DAY_MINUTES else None


def _read_weekdays(text: str) -> tuple[int, ...] | None:
    """Read a day, or a range such as `mon-fri` or `sat-mon`."""
    first, dash, last = text.partition("-")
    if first not in WEEKDAYS or (dash and last not in WEEKDAYS):
        return None
    begin = WEEKDAYS.index(first)
    count = (WEEKDAYS.index(last) - begin) % len(WEEKDAYS) if dash else 0
    return tuple((begin + step) % len(WEEKDAYS) for step in range(count + 1))


def _read_each(value: object, read: Callable[[str], Read | None], rule: str) -> list[Read]:
    texts = value if isinstance(value, list) else [value]
    found = [one for text in texts if isinstance(text, str) and (one := read(text)) is not None]
    if not found or len(found) != len(texts):
        raise ValueError(rule)
    return found


def read_hours(value: object) -> tuple[Span, ...]:
    """Read `"01:00-04:00"`, or an array of such. Raises ValueError."""
    return tuple(_read_each(value, _read_span, 'must be hours in UTC, such as "01:00-04:00"'))


def read_weekdays(value: object) -> tuple[int, ...]:
    """Read `"mon"`, `"mon-fri"`, or an array of such. Raises ValueError."""
    found = _read_each(value, _read_weekdays, 'must be days such as "sat" or "mon-fri"')
    return tuple(sorted({day for days in found for day in days}))


def read_date(value: object) -> int:
    """Read a date of TOML, which begins at 00:00 UTC, or a date with a time. Raises ValueError."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    elif isinstance(value, date):
        moment = datetime(value.year, value.month, value.day, tzinfo=UTC)
    else:
        raise ValueError("must be a date such as 2026-12-31, or one with a time, without quotes")  # noqa: TRY004 - a reader's one error
    return to_unix_ms(moment)
