"""Rules of prices that may hold for one request, and the times that two windows share."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Final

from gateway.base.prices import CONDITIONS, PriceList, PriceRule
from gateway.base.times import MINUTE_MS, WEEK_MINUTES, Window, find_minute

_WHOLE_WEEK: Final = (1 << WEEK_MINUTES) - 1
"""A bit for each minute of the week, as `Window.minutes` has them."""


def find_conflicts(prices: PriceList) -> Iterator[tuple[PriceRule, PriceRule]]:
    """Yield pairs of rules that may hold at once, where neither contains the other.

    In such cases the first applies, perhaps against the intention, unless an earlier rule covers
    both.
    """
    for (number, first), (_, second) in combinations(enumerate(prices.rules), 2):
        if not _meet(first, second) or _contains(first, second) or _contains(second, first):
            continue
        if not any(_contains(rule, first, second) for rule in prices.rules[:number]):
            yield first, second


def _meet(first: PriceRule, second: PriceRule) -> bool:
    """Return whether both rules may hold for one request."""
    words = ((getattr(first, name), getattr(second, name)) for name in CONDITIONS)
    return meets(first.window, second.window) and all(
        None in pair or pair[0] == pair[1] for pair in words
    )


def _contains(rule: PriceRule, *others: PriceRule) -> bool:
    """Return whether a rule holds whenever all the others (one or two that overlap) hold."""
    above = max((-1 if one.input_above is None else one.input_above) for one in others)
    return (
        (rule.input_above is None or rule.input_above <= above)
        and all(
            getattr(rule, name) in (None, *(getattr(one, name) for one in others))
            for name in CONDITIONS
        )
        and contains(rule.window, others[0].window, others[-1].window)
    )


def meets(one: Window, other: Window) -> bool:
    """Return whether two windows overlap."""
    return _find_overlap(one, other)[2] > 0


def contains(window: Window, one: Window, other: Window) -> bool:
    """Return whether a window covers the overlap of two others."""
    begin, end, minutes = _find_overlap(one, other)
    return window.dates[0] <= begin and end <= window.dates[1] and not minutes & ~window.minutes


def _find_overlap(one: Window, other: Window) -> tuple[int, int, int]:
    """Return begin, end and minutes of the overlap."""
    begin = max(one.dates[0], other.dates[0])
    end = min(one.dates[1], other.dates[1])
    if begin >= end:
        return begin, end, 0
    return begin, end, one.minutes & other.minutes & _list_minutes(begin, end)


def _list_minutes(begin_ms: int, end_ms: int) -> int:
    """Return a bit for each minute of the week that lies between two times."""
    count = -(-end_ms // MINUTE_MS) - begin_ms // MINUTE_MS
    if count >= WEEK_MINUTES:
        return _WHOLE_WEEK
    # Minutes after Sunday's last are Monday's: the bits wrap around.
    shifted = ((1 << count) - 1) << find_minute(begin_ms)
    return (shifted | shifted >> WEEK_MINUTES) & _WHOLE_WEEK


def find_time_ms(window: Window, now_ms: int) -> int:
    """Return a time in a window: now, or else the next one, or one of its last week."""
    begin, end = window.dates
    # The last week of an ended window contains each of its minutes of the week.
    starts = max(begin, now_ms), max(begin, end - WEEK_MINUTES * MINUTE_MS)
    times = (
        max(start, minute * MINUTE_MS)
        for start in starts
        for minute in range(start // MINUTE_MS, start // MINUTE_MS + WEEK_MINUTES)
    )
    return next((one for one in times if window.has(one)), now_ms)
