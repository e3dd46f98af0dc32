"""Budgets of accounts: created, edited and ended. A key's own budget is changed with the key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from gateway.base.money import format_amount
from gateway.ledger.budget_records import Allowance, BudgetChanges, BudgetView, find_span
from gateway.ledger.checks import MAX_NAME_CHARS, require_allowance, require_text
from gateway.ledger.key_records import KeyView
from gateway.ledger.records import Conflict, NotFound, Refused
from gateway.ledger.sql.database import KEY_LIVES, Part
from gateway.ledger.sql.rows import BUDGET_COLUMNS, BudgetColumns, read_budget, sum_charges

_USERS: Final = f"FROM keys WHERE keys.budget_id = budgets.id AND {KEY_LIVES}"
_EACH: Final = f"""
    SELECT {BUDGET_COLUMNS}, accounts.name, (SELECT count(*) {_USERS}), budgets.created_ms
    FROM budgets JOIN accounts ON accounts.id = budgets.account_id
"""  # noqa: S608 - of constants
_ONE: Final = (
    _EACH + " WHERE budgets.id = :id AND ended_ms IS NULL"
    " AND budgets.account_id = coalesce(:account, budgets.account_id)"
)
_ALL: Final = (
    _EACH + " WHERE accounts.name = coalesce(:account, accounts.name) AND ended_ms IS NULL"
    f" AND (budgets.name IS NOT NULL OR EXISTS (SELECT 1 {_USERS}))"
    " ORDER BY accounts.name, budgets.name IS NULL, budgets.name, budgets.id"
)
_SHARED: Final = (
    "SELECT name FROM budgets WHERE id = ? AND account_id = ?"
    " AND name IS NOT NULL AND ended_ms IS NULL"
)
_NAMED: Final = "SELECT 1 FROM budgets WHERE account_id = ? AND name = ? AND ended_ms IS NULL"
_SUM: Final = "SELECT period, period_day, spent_nano FROM budgets WHERE id = ?"


class BudgetBook(Part):
    """If `account_id` is given, budgets of other accounts are treated as unknown."""

    def read(self, budget_id: int, *, account_id: int | None = None) -> BudgetView:
        """Return a budget. Raises NotFound, also for one that has ended."""
        wanted = {"id": budget_id, "account": account_id, "now": self._database.clock()}
        missing = NotFound(f"there is no budget {budget_id}")
        return self._view(self._database.require_one(_ONE, wanted, missing))

    def read_all(self, account: str | None = None) -> list[BudgetView]:
        """Return the named budgets and those of keys that have not ended; by account and name."""
        if account is not None:
            account = self._database.read_account(account).name
        wanted = {"account": account, "now": self._database.clock()}
        return [self._view(row) for row in self._database.fetch(_ALL, wanted)]

    def find(self, word: str, account: str | None = None) -> BudgetView:
        """Find a budget by its id or its name."""
        found = [one for one in self.read_all(account) if word in (str(one.id), one.name)]
        if not found:
            raise NotFound(
                f"there is no budget '{word}'; `budget list` lists them", field="budget_id"
            )
        if len(found) > 1:
            ids = ", ".join(f"{one.id} of '{one.account}'" for one in found)
            raise Refused(f"several accounts have a budget '{word}'; give its id: {ids}")
        return found[0]

    def find_shared(self, account_id: int, budget_id: int) -> str:
        """Return the name of a budget of this account that keys can share. Raises NotFound."""
        missing = NotFound("the account has no such budget", field="budget_id")
        (name,) = self._database.require_one(_SHARED, (budget_id, account_id), missing)
        return str(name)

    def create(self, account: str, name: str, allowance: Allowance) -> BudgetView:
        """Create a budget that several keys can share."""
        _require_name(name)
        require_allowance(allowance)
        with self._database.changing():
            owner = self._database.read_account(account)
            self._require_free(owner.id, name)
            budget_id = self.insert(owner.id, name, allowance)
            detail = f"'{name}': {describe_allowance(allowance)}"
            self._database.note("budget.add", account=account, target=str(budget_id), detail=detail)
            return self.read(budget_id)

    def edit(
        self, budget_id: int, changes: BudgetChanges, *, account_id: int | None = None
    ) -> BudgetView:
        """Change a budget; one with another period counts what was charged to it in that."""
        if not changes:
            raise Refused("nothing to change; give an amount with its period, or a name")
        if "name" in changes:
            _require_name(changes["name"])
        require_allowance(changes.get("allowance"))
        with self._database.changing():
            budget = self.read(budget_id, account_id=account_id)
            name = changes.get("name", budget.name)
            if name is not None and name != budget.name:
                _require_own_name(budget)
                self._require_free(self._database.read_account(budget.account).id, name)
            allowance = changes.get("allowance", Allowance(budget.amount_nano, budget.period))
            self._write(budget_id, name, allowance)
            detail = ("" if name is None else f"'{name}': ") + describe_allowance(allowance)
            self._note("budget.edit", budget, detail)
            return self.read(budget_id)

    def end(self, budget_id: int, *, account_id: int | None = None) -> None:
        """End a named budget that no live key spends from. Raises Conflict if one does."""
        with self._database.changing():
            budget = self.read(budget_id, account_id=account_id)
            _require_own_name(budget)
            # Ending it would lift a limit that somebody relies on.
            if budget.keys:
                keys = "1 key spends" if budget.keys == 1 else f"{budget.keys} keys spend"
                raise Conflict(
                    f"{keys} from the budget '{budget.name}'; edit or revoke them first",
                    code="budget_in_use",
                )
            self._database.update("budgets", budget_id, {"ended_ms": self._database.clock()})
            self._note("budget.remove", budget, f"'{budget.name}'")

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
        self._write(key.budget.id, None, own)
        return key.budget.id

    def _write(self, budget_id: int, name: str | None, allowance: Allowance) -> None:
        """Write a budget's terms, and its sum for the present period, which may be another now."""
        span = find_span(allowance.period, self._database.clock())
        period, period_day, spent_nano = self._database.read_one(_SUM, (budget_id,))
        # Only another period is summed up anew: in a month there may be very many requests.
        if (period, period_day) != (allowance.period, span.first_day):
            spent_nano = sum_charges(self._database.connection, budget_id, span)
        row = {"name": name, **asdict(allowance), "spent_nano": spent_nano}
        self._database.update("budgets", budget_id, {**row, "period_day": span.first_day})
        self._database.append_change("budget", budget_id)

    def _view(self, row: tuple[*BudgetColumns, str, int, int]) -> BudgetView:
        standing = read_budget(row[:7]).show(self._database.clock())
        account, keys, created_ms = row[7:]
        return BudgetView(**asdict(standing), account=account, keys=keys, created_ms=created_ms)

    def _note(self, action: str, budget: BudgetView, detail: str) -> None:
        target = str(budget.id)
        self._database.note(action, account=budget.account, target=target, detail=detail)

    def _require_free(self, account_id: int, name: str) -> None:
        if self._database.read_one(_NAMED, (account_id, name)):
            raise Conflict(
                f"the account has a budget '{name}' already", code="name_taken", field="name"
            )


def describe_allowance(allowance: Allowance) -> str:
    return f"{format_amount(allowance.amount_nano)} a {allowance.period}"


def _require_name(name: str) -> None:
    """Require a name that a command cannot take for an id, for an amount, or for `none`."""
    require_text("the budget's name", name, MAX_NAME_CHARS, "name")
    if "/" in name or name == "none" or not any(letter.isalpha() for letter in name):
        raise Refused(
            "the budget's name must have a letter and no '/', and must not be 'none'", field="name"
        )


def _require_own_name(budget: BudgetView) -> None:
    if budget.name is None:
        raise Conflict(
            f"budget {budget.id} is a key's own; edit that key instead", code="own_budget"
        )
