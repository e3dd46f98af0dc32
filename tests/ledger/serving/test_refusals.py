"""Refusals say what is lacking, and whether another try is worth while."""

from __future__ import annotations

from typing import get_args

from gateway.errors import BalanceHeld, BudgetSpent, InsufficientBalance
from gateway.ledger.key_records import Allowance, Budget, Spending, find_span
from gateway.ledger.serving.holds import Lack, refuse_funds
from tests.support.rows import each_row

BUDGET = Budget(1, 1, "team", Allowance(1000, "day"), Spending(find_span("day", 0), 1000))


@each_row("lack", get_args(Lack))
def test_what_is_held_may_be_tried_again(lack: Lack) -> None:
    refusal = refuse_funds(lack, BUDGET)
    assert isinstance(refusal, BalanceHeld if lack.endswith("held") else InsufficientBalance)
    assert refusal.status == (429 if lack.endswith("held") else 402)


def test_each_lack_has_words_of_its_own() -> None:
    assert len({str(refuse_funds(lack, BUDGET)) for lack in get_args(Lack)}) == 6


@each_row("lack", ["budget", "budget held"])
def test_a_budget_is_named(lack: Lack) -> None:
    assert "team" in str(refuse_funds(lack, BUDGET))
    assert isinstance(refuse_funds("budget", BUDGET), BudgetSpent)
