"""Budgets as keys have them: a budget of their own, or one that keys of an account share."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from gateway.base.money import format_amount
from gateway.ledger.budget_records import Allowance, find_span
from gateway.ledger.key_records import KeyView
from gateway.ledger.records import NotFound
from gateway.ledger.sql.database import Part
from gateway.ledger.sql.rows import sum_charges

_NAMED: Final = """
    SELECT id FROM budgets WHERE account_id = ? AND ended_ms IS NULL AND ? IN (name, CAST(id AS TEXT))
"""
_SHARED: Final = (
    "SELECT name FROM budgets WHERE id = ? AND account_id = ?"
    " AND name IS NOT NULL AND ended_ms IS NULL"
)
_SUM: Final = "SELECT period, period_day, spent_nano FROM budgets WHERE id = ?"


class BudgetBook(Part):
    def find_id(self, word: str, account: str) -> int:
        """Find a budget of an account by its id or its name."""
        owner = self._database.read_account(account)
        missing = NotFound(
            f"there is no budget '{word}'; `budget list` lists them", field="budget_id"
        )
        return int(self._database.require_one(_NAMED, (owner.id, word), missing)[0])

    def find_shared(self, account_id: int, budget_id: int) -> str:
        """Return the name of a budget of this account that keys can share. Raises NotFound."""
        missing = NotFound("the account has no such budget", field="budget_id")
        (name,) = self._database.require_one(_SHARED, (budget_id, account_id), missing)
        return str(name)

    def insert(self, account_id: int, name: str | None, allowance: Allowance) -> int:
        """Insert an unspent budget; return its id."""
        now_ms = self._database.clock()
        first_day = find_span(allowance.period, now_ms).first_day
        row = {"account_id": account_id, "name": name, **asdict(allowance)}
        row |= {"period_day": first_day, "created_ms": now_ms}
        return self._database.insert_numbered("budgets", row)

    def set_own(self, key: KeyView, account_id: int, own: Allowance) -> int:
        """Change the key's own budget, or make it one; return its id."""
        if key.budget is None or key.budget.name is not None:
            return self.insert(account_id, None, own)
        self.write(key.budget.id, None, own)
        return key.budget.id

    def write(self, budget_id: int, name: str | None, allowance: Allowance) -> None:
        """Write a budget's terms, and its sum for the present period, which may be another now."""
        span = find_span(allowance.period, self._database.clock())
        period, period_day, spent_nano = self._database.read_one(_SUM, (budget_id,))
        # Only another period is summed up anew: in a month there may be very many requests.
        if (period, period_day) != (allowance.period, span.first_day):
            spent_nano = sum_charges(self._database.connection, budget_id, span)
        row = {"name": name, **asdict(allowance), "spent_nano": spent_nano}
        self._database.update("budgets", budget_id, {**row, "period_day": span.first_day})
        self._database.append_change("budget", budget_id)


def describe_allowance(allowance: Allowance) -> str:
    return f"{format_amount(allowance.amount_nano)} a {allowance.period}"
