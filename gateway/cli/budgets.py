"""The verbs for budgets."""

from __future__ import annotations

from gateway.admin import budgets, views
from gateway.cli.command import Command
from gateway.cli.tables import BUDGETS
from gateway.ledger import BudgetChanges, BudgetView


def budget_add(command: Command) -> None:
    options = command.options
    assert options.account is not None  # argparse requires both here
    assert options.allowance is not None
    with command.open_books() as books:
        made = budgets.add_budget(books, options.account, options.name, options.allowance)
        _tell_budget(command, made, "added")


def budget_list(command: Command) -> None:
    with command.open_books() as books:
        found = books.budgets.read_all(command.options.account)
        command.show_list(found, views.describe_budget, BUDGETS)


def budget_edit(command: Command) -> None:
    options = command.options
    changes: BudgetChanges = {}
    if options.name is not None:
        changes["name"] = options.name
    if options.allowance is not None:
        changes["allowance"] = options.allowance
    with command.forbid() as books:
        budget = budgets.find_budget(books, options.id)
        _tell_budget(command, budgets.edit_budget(books, budget.id, changes), "changed")


def budget_remove(command: Command) -> None:
    with command.open_books() as books:
        budget = budgets.find_budget(books, command.options.id)
        books.budgets.end(budget.id)
        _tell_budget(command, budget, "removed")


def _tell_budget(command: Command, budget: BudgetView, done: str) -> None:
    command.show(views.describe_budget(budget))
    name = "" if budget.name is None else f" '{budget.name}'"
    command.say(
        f"Budget {budget.id}{name} of account {budget.account},"
        f" {command.format_money(budget.amount_nano)} a {budget.period}, is {done}."
    )
