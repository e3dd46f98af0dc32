"""Budgets of keys, in periods of the calendar: spans, what is spent, what a view shows.

    key ── budget_id ──> budget <── budget_id ── request, from its hold on

A budget's sum is the cost of posted requests charged to it in one period. The transaction that posts a
request adds its cost, in the period of the commit; the first request of a period begins a new sum.
Nothing has to happen when a period ends: the sum of another period counts as 0. A request is charged to
the budget that its key had at the hold. Corrections change no budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, Literal, assert_never

from gateway.base.times import DAY_MS

Period = Literal["day", "week", "month"]

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_A_MONTH: Final = 31
"""Days after the first of any month that certainly reach the next month, as no month has more."""


@dataclass(frozen=True, slots=True)
class Span:
    """One period, from its first midnight to the first midnight of the next."""

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
    """Cached: all settlements of a day are in the same three periods."""
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


@dataclass(frozen=True, slots=True)
class Allowance:
    """The most that may be spent in each period."""

    amount_nano: int
    period: Period


@dataclass(frozen=True, slots=True)
class Spending:
    """The spent sum of one period."""

    span: Span
    spent_nano: int


def make_spending(period: Period, first_day: int, spent_nano: int) -> Spending:
    return Spending(find_span(period, first_day * DAY_MS), spent_nano)


@dataclass(frozen=True, slots=True)
class BudgetStanding:
    """A budget in its present period."""

    id: int
    name: str | None
    """None if it is a key's own."""
    period: Period
    amount_nano: int
    spent_nano: int
    resets_ms: int
    """The end of the period."""

    @property
    def remaining_nano(self) -> int:
        # Requests may cost more than their holds, so a budget can be overspent.
        return max(self.amount_nano - self.spent_nano, 0)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Budget:
    """A budget in the memory of a serving process, shared by its keys; only the ledger writes to it."""

    id: int
    account_id: int
    name: str | None
    """None if it is a key's own."""
    allowance: Allowance
    spending: Spending
    """Replaced by what was committed."""
    held_nano: int = 0
    unheld_nano: int = 0

    def find_spent_nano(self, now_ms: int) -> int:
        """Return what was spent in the present period."""
        # The sum of an earlier period stays until the first charge of the present period replaces it.
        spending = self.spending
        return spending.spent_nano if spending.span.contains(now_ms) else 0

    def is_spent(self, now_ms: int) -> bool:
        """Return whether nothing is left of the present period."""
        return self.find_spent_nano(now_ms) >= self.allowance.amount_nano

    def find_left_nano(self, now_ms: int) -> int:
        """Return how much is left in the present period, less the possible cost of requests in flight."""
        spoken_for_nano = self.find_spent_nano(now_ms) + self.held_nano + self.unheld_nano
        return self.allowance.amount_nano - spoken_for_nano

    def show(self, now_ms: int) -> BudgetStanding:
        """Return its standing in the present period; the sum of another period counts as 0."""
        span = find_span(self.allowance.period, now_ms)
        spent_nano = self.spending.spent_nano if self.spending.span == span else 0
        terms = (self.allowance.period, self.allowance.amount_nano)
        return BudgetStanding(self.id, self.name, *terms, spent_nano, span.ends_ms)
