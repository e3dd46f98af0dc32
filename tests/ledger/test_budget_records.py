"""Budgets as the server knows them, and what is told of them."""

from __future__ import annotations

from gateway.ledger.key_records import Allowance, Budget, Spending, find_span, refuse_spent
from gateway.times import DAY_MS

NOW_MS = 1_700_000_000_000
"""In the evening of 2023-11-14."""


def make_budget(name: str | None = "team", spent_nano: int = 2 * 10**9) -> Budget:
    spending = Spending(find_span("month", NOW_MS), spent_nano)
    return Budget(1, 1, name, Allowance(10**9, "month"), spending)


def test_a_sum_counts_in_its_own_period_alone() -> None:
    budget = make_budget()
    assert budget.find_spent_nano(NOW_MS) == 2 * 10**9
    assert budget.find_spent_nano(NOW_MS + 31 * DAY_MS) == 0
    assert budget.find_spent_nano(NOW_MS - 31 * DAY_MS) == 0, "the clock was set back"


def test_what_is_shown_is_the_present_period() -> None:
    shown = make_budget().show(NOW_MS)
    assert (shown.spent_nano, shown.remaining_nano) == (2 * 10**9, 0)
    later = make_budget().show(NOW_MS + 31 * DAY_MS)
    assert (later.spent_nano, later.remaining_nano) == (0, 10**9)
    assert later.resets_ms > shown.resets_ms


def test_a_sum_of_another_kind_of_period_is_not_shown() -> None:
    """The books changed the period, and the server has read that, but not yet the new sum."""
    budget = make_budget()
    budget.allowance = Allowance(5, "day")
    assert budget.show(NOW_MS).spent_nano == 0


def test_a_refusal_names_the_budget_the_amount_and_the_reset() -> None:
    assert refuse_spent(make_budget(), "EUR").message == (
        "The budget 'team' of 1.00 EUR a month is spent. It resets at 2023-12-01 00:00 UTC."
        " Raise it or use another key."
    )
    own = refuse_spent(make_budget(name=None))
    assert own.message.startswith("This key's budget of 1.00 a month is spent.")
    assert (own.status, own.code, own.should_retry) == (402, "insufficient_quota", False)
