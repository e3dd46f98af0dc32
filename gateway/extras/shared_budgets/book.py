"""Budgets of accounts: created, edited, shown and ended. A key's own budget is changed with the key."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final, TypedDict

from gateway.admin.fields import Fields
from gateway.admin.views import STANDING
from gateway.ledger.budget_records import Allowance, BudgetStanding
from gateway.ledger.checks import MAX_NAME_CHARS, require_allowance, require_text
from gateway.ledger.records import Conflict, NotFound, Refused
from gateway.ledger.sql.budgets import BudgetBook, describe_allowance
from gateway.ledger.sql.database import KEY_LIVES
from gateway.ledger.sql.rows import BUDGET_COLUMNS, BudgetColumns, read_budget

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
_NAMED: Final = "SELECT 1 FROM budgets WHERE account_id = ? AND name = ? AND ended_ms IS NULL"


@dataclass(frozen=True, slots=True)
class BudgetView(BudgetStanding):
    """A budget as operators and holders see it."""

    account: str
    keys: int
    """The number of live keys that spend from it."""
    created_ms: int


class BudgetChanges(TypedDict, total=False):
    """Changes of a budget, with the new values."""

    name: str
    allowance: Allowance


BUDGET: Final = Fields[BudgetView](
    *STANDING.members,
    *("account", "keys", "created_ms"),
    table=(
        *("id", "account", "name", "amount_nano"),
        ("PER", "period"),
        *("spent_nano", "remaining_nano", "resets_ms", "keys"),
    ),
)


class SharedBudgets(BudgetBook):
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

    def read_named(self, account: str) -> list[BudgetView]:
        """Return the budgets of an account that its keys can share."""
        return [one for one in self.read_all(account) if one.name is not None]

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
            self.write(budget_id, name, allowance)
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
