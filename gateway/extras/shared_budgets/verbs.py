"""The verbs for budgets that keys share."""

from __future__ import annotations

from typing import Final

from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.keys import OF_ACCOUNT
from gateway.cli.verbs import arg, verb
from gateway.extras.shared_budgets.book import BUDGET, BudgetChanges, BudgetView, SharedBudgets
from gateway.ledger.budget_records import Allowance

_ALLOWANCE: Final = "the most that may be spent in each day, week or month (UTC), such as 100/month"
_BUDGET_NAME: Final = arg("budget", "ID|NAME", "the id or the name, as `budget list` shows it")


@verb(
    "budget add",
    examples=("budget add alice team 100/month", "budget add alice ci 5/day --json"),
    arguments=(
        arg("account", "ACCOUNT", "the account whose keys may spend from it"),
        arg("name", "NAME", "its name, which no other budget of the account has"),
        arg("allowance", read.allowance, _ALLOWANCE),
    ),
)
def budget_add(command: Command, account: str, name: str, allowance: Allowance) -> None:
    """Add a budget that several keys of an account can share."""
    made = SharedBudgets(command.open_books()).create(account, name, allowance)
    _tell_budget(command, made, "added")


@verb("budget list", examples=("budget list", "budget list alice --json"), either=OF_ACCOUNT)
def budget_list(command: Command, account: str | None) -> None:
    """List budgets: what is spent, what remains, and when they begin anew."""
    command.show_list(SharedBudgets(command.open_books()).read_all(account), BUDGET)


@verb(
    "budget edit",
    examples=("budget edit team 200/month", "budget edit 3 --name crew"),
    arguments=(
        _BUDGET_NAME,
        arg("allowance", read.allowance, _ALLOWANCE, nargs="?"),
        arg("--name", "NEW", "another name"),
    ),
)
def budget_edit(
    command: Command, budget: str, allowance: Allowance | None, name: str | None
) -> None:
    """Change a budget. What was spent in the present period stays spent."""
    changes: BudgetChanges = {}
    if name is not None:
        changes["name"] = name
    if allowance is not None:
        changes["allowance"] = allowance
    books = command.open_books()
    book = SharedBudgets(books)
    _tell_budget(command, book.edit(book.find(budget).id, changes), "changed")
    books.wait_in_force()


@verb("budget remove", examples=("budget remove team",), arguments=(_BUDGET_NAME,))
def budget_remove(command: Command, budget: str) -> None:
    """Remove a budget that no key spends from any more."""
    book = SharedBudgets(command.open_books())
    found = book.find(budget)
    book.end(found.id)
    _tell_budget(command, found, "removed")


def _tell_budget(command: Command, budget: BudgetView, done: str) -> None:
    command.show(BUDGET.describe(budget))
    name = "" if budget.name is None else f" '{budget.name}'"
    command.say(
        f"Budget {budget.id}{name} of account {budget.account},"
        f" {command.format_money(budget.amount_nano)} a {budget.period}, is {done}."
    )
