"""Budgets in memory: their sums are always computed from all requests, never added to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gateway.ledger.base import Key
from gateway.ledger.key_records import (
    Allowance,
    Budget,
    BudgetChanges,
    BudgetView,
    KeyTerms,
    Spending,
    find_span,
)
from tests.ledger.memory.storage import MemoryStorage


@dataclass(frozen=True)
class MemoryBudgets:
    storage: MemoryStorage
    clock: Callable[[], int]

    def create(self, account: str, name: str | None, allowance: Allowance) -> BudgetView:
        budget_id = len(self.storage.budgets) + 1
        spending = Spending(find_span(allowance.period, self.clock()), 0)
        owner = self.storage.accounts[account]
        budget = Budget(budget_id, owner.id, name, allowance, spending)
        self.storage.budgets[budget_id] = budget
        return self.read(budget_id)

    def edit(self, budget_id: int, changes: BudgetChanges) -> BudgetView:
        budget = self.storage.budgets[budget_id]
        budget.name = changes.get("name", budget.name)
        budget.allowance = changes.get("allowance", budget.allowance)
        self.storage.sum_budget(budget, self.clock())
        return self.read(budget_id)

    def read(self, budget_id: int) -> BudgetView:
        budget = self.storage.budgets[budget_id]
        shown = budget.show(self.clock())
        accounts = {one.id: name for name, one in self.storage.accounts.items()}
        return BudgetView(
            shown.id,
            shown.name,
            shown.period,
            shown.amount_nano,
            shown.spent_nano,
            shown.resets_ms,
            account=accounts[budget.account_id],
            keys=sum(
                key.budget is budget and key.is_live(self.clock())
                for key in self.storage.keys.values()
            ),
            created_ms=0,
        )

    def find_of(self, terms: KeyTerms) -> Budget | None:
        return None if terms.budget_id is None else self.storage.budgets[terms.budget_id]

    def set_own(self, key: Key, own: Allowance) -> int:
        """Change the key's own budget, or make it one; return its id."""
        if key.budget is not None and key.budget.name is None:
            return self.edit(key.budget.id, {"allowance": own}).id
        return self.create(key.account.name, None, own).id
