"""Records of budgets: how much keys may spend in a period of the calendar.

    key ── budget_id ──> budget <── budget_id ── request, from its hold on

A budget's sum is that of the posted requests charged to it which ended in one period. It is kept by
the transaction that posts them, for the period at the time of the commit; the first one of a period
begins a new sum. Nothing has to happen when a period ends: a sum of another period counts as 0.
A request is charged to the budget that its key had at the hold. Corrections change no budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from gateway.errors import BudgetSpent
from gateway.ledger.periods import Period, Span, find_span
from gateway.money import format_amount
from gateway.times import format_moment


@dataclass(frozen=True, slots=True)
class Allowance:
    """The most that may be spent in each period."""

    amount_nano: int
    period: Period


@dataclass(frozen=True, slots=True)
class Spending:
    """The sum of one period."""

    span: Span
    spent_nano: int


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
        return max(self.amount_nano - self.spent_nano, 0)


@dataclass(frozen=True, slots=True)
class BudgetView(BudgetStanding):
    """A budget as the operator and its holder see it."""

    account: str
    keys: int
    """Keys that spend from it and have not ended."""
    created_ms: int


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

    @property
    def title(self) -> str:
        return "this key's budget" if self.name is None else f"the budget '{self.name}'"

    def find_spent_nano(self, now_ms: int) -> int:
        """Return what was spent in the present period."""
        spending = self.spending
        return spending.spent_nano if spending.span.contains(now_ms) else 0

    def is_spent(self, now_ms: int) -> bool:
        """Return whether nothing is left of the present period."""
        return self.find_spent_nano(now_ms) >= self.allowance.amount_nano

    def find_left_nano(self, now_ms: int) -> int:
        """Return what is left of the present period, less what requests in flight may cost."""
        spoken_for_nano = self.find_spent_nano(now_ms) + self.held_nano + self.unheld_nano
        return self.allowance.amount_nano - spoken_for_nano

    def show(self, now_ms: int) -> BudgetStanding:
        return show_budget(self.id, self.name, self.allowance, self.spending, now_ms)


class BudgetChanges(TypedDict, total=False):
    """Changes of a budget, with the new values."""

    name: str
    allowance: Allowance


def show_budget(
    budget_id: int, name: str | None, allowance: Allowance, spending: Spending, now_ms: int
) -> BudgetStanding:
    """Show a budget in the present period, whichever its sum is of."""
    span = find_span(allowance.period, now_ms)
    spent_nano = spending.spent_nano if spending.span == span else 0
    terms = (allowance.period, allowance.amount_nano)
    return BudgetStanding(budget_id, name, *terms, spent_nano, span.ends_ms)


def refuse_spent(budget: Budget, currency: str = "") -> BudgetSpent:
    """Make the refusal of a request whose budget is spent; the ledger knows no currency."""
    amount = f"{format_amount(budget.allowance.amount_nano)} {currency}".rstrip()
    resets = format_moment(budget.spending.span.ends_ms)
    return BudgetSpent(
        f"{budget.title[0].upper()}{budget.title[1:]} of {amount} a {budget.allowance.period} is"
        f" spent. It resets at {resets} UTC. Raise it or use another key."
    )
