"""The verbs of budgets that check their input: add and edit; and finding one by its name.

If `account_id` is given, the budget must belong to that account; those of others are unknown.
"""

from __future__ import annotations

from gateway.admin.checks import MAX_NAME_CHARS, require_amount, require_text
from gateway.ledger import Allowance, Books, BudgetChanges, BudgetView, NotFound, Refused


def add_budget(books: Books, account: str, name: str, allowance: Allowance) -> BudgetView:
    """Create a budget that several keys of the account can share."""
    _require_name(name)
    require_allowance(allowance)
    return books.budgets.create(account, name, allowance)


def edit_budget(
    books: Books, budget_id: int, changes: BudgetChanges, *, account_id: int | None = None
) -> BudgetView:
    """Change name or allowance; in force at the next request."""
    if not changes:
        raise Refused("nothing to change; give an amount with its period, or a name")
    if "name" in changes:
        _require_name(changes["name"])
    if "allowance" in changes:
        require_allowance(changes["allowance"])
    return books.budgets.edit(budget_id, changes, account_id=account_id)


def find_budget(books: Books, word: str, account: str | None = None) -> BudgetView:
    """Find a budget by its id or its name."""
    found = [one for one in books.budgets.read_all(account) if word in (str(one.id), one.name)]
    if not found:
        raise NotFound(f"there is no budget '{word}'; `budget list` lists them", field="budget_id")
    if len(found) > 1:
        ids = ", ".join(f"{one.id} of '{one.account}'" for one in found)
        raise Refused(f"several accounts have a budget '{word}'; give its id: {ids}")
    return found[0]


def require_allowance(allowance: Allowance, field: str = "amount") -> None:
    require_amount(allowance.amount_nano, field)
    if allowance.amount_nano <= 0:
        raise Refused("the budget's amount must be above 0", field=field)


def _require_name(name: str) -> None:
    """Require a name that a command cannot take for an id, for an amount, or for `none`."""
    require_text("the budget's name", name, MAX_NAME_CHARS, "name")
    if "/" in name or name == "none" or not any(letter.isalpha() for letter in name):
        raise Refused(
            "the budget's name must have a letter and no '/', and must not be 'none'", field="name"
        )
