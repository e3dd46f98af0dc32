"""The periods of budgets in the UTC calendar: days, weeks that begin on Monday, months."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, Literal, assert_never

from gateway.times import DAY_MS

Period = Literal["day", "week", "month"]

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_A_MONTH: Final = 31
"""Days behind the first of any month that are in the next one."""


@dataclass(frozen=True, slots=True)
class Span:
    """One period, from its first midnight to that of the next."""

    starts_ms: int
    ends_ms: int
    """The end; it is exclusive."""

    @property
    def first_day(self) -> int:
        """Return the day of its start, counted from the epoch."""
        return self.starts_ms // DAY_MS

    def contains(self, at_ms: int) -> bool:
        return self.starts_ms <= at_ms < self.ends_ms


def find_span(period: Period, at_ms: int) -> Span:
    """Return the period in which a time lies."""
    return _find_span(period, at_ms // DAY_MS)


@lru_cache(maxsize=64)
def _find_span(period: Period, day: int) -> Span:
    """Compute it once: all settlements of a day are in the same three periods."""
    match period:
        case "day":
            first, following = day, day + 1
        case "week":
            first = day - date.fromordinal(_EPOCH_ORDINAL + day).weekday()
            following = first + 7
        case "month":
            begins = date.fromordinal(_EPOCH_ORDINAL + day).replace(day=1)
            ends = (begins + timedelta(days=_A_MONTH)).replace(day=1)
            first, following = (one.toordinal() - _EPOCH_ORDINAL for one in (begins, ends))
        case _:
            assert_never(period)
    return Span(first * DAY_MS, following * DAY_MS)
