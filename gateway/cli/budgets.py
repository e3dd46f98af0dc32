"""The verbs for budgets."""

from __future__ import annotations

from typing import Final

from gateway.admin import budgets, views
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.output import Columns
from gateway.cli.verbs import JSON, arg, verb
from gateway.ledger import Allowance, BudgetChanges, BudgetView
from gateway.money import format_amount
from gateway.times import format_moment

BUDGETS: Final[Columns[BudgetView]] = (
    ("ID", lambda budget: str(budget.id)),
    ("ACCOUNT", lambda budget: budget.account),
    ("NAME", lambda budget: budget.name or "-"),
    ("AMOUNT {}", lambda budget: format_amount(budget.amount_nano)),
    ("PER", lambda budget: budget.period),
    ("SPENT {}", lambda budget: format_amount(budget.spent_nano)),
    ("REMAINING {}", lambda budget: format_amount(budget.remaining_nano)),
    ("RESETS UTC", lambda budget: format_moment(budget.resets_ms)),
    ("KEYS", lambda budget: str(budget.keys)),
)

_ALLOWANCE: Final = "the most that may be spent in each day, week or month (UTC), such as 100/month"
_BUDGET: Final = arg(
    "budget", "ID|NAME", read.word, "the id or the name, as `budget list` shows it"
)


@verb(
    "budget add",
    "budget add alice team 100/month",
    "budget add alice ci 5/day --json",
    arguments=(
        arg("account", "ACCOUNT", read.word, "the account whose keys may spend from it"),
        arg("name", "NAME", read.word, "its name, which no other budget of the account has"),
        arg("allowance", "AMOUNT/PERIOD", read.allowance, _ALLOWANCE),
        JSON,
    ),
)
def budget_add(command: Command, account: str, name: str, allowance: Allowance) -> None:
    """Add a budget that several keys of an account can share."""
    with command.open_books() as books:
        made = budgets.add_budget(books, account, name, allowance)
        _tell_budget(command, made, "added")


@verb(
    "budget list",
    "budget list",
    "budget list alice --json",
    arguments=(
        arg("account", "ACCOUNT", read.word, "list only those of this account", nargs="?"),
        JSON,
    ),
)
def budget_list(command: Command, account: str | None) -> None:
    """List budgets: what is spent, what remains, and when they begin anew."""
    with command.open_books() as books:
        command.show_list(books.budgets.read_all(account), views.describe_budget, BUDGETS)


@verb(
    "budget edit",
    "budget edit team 200/month",
    "budget edit 3 --name crew",
    arguments=(
        _BUDGET,
        arg("allowance", "AMOUNT/PERIOD", read.allowance, _ALLOWANCE, nargs="?"),
        arg("--name", "NEW", read.word, "another name"),
        JSON,
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
    with command.forbid() as books:
        found = budgets.find_budget(books, budget)
        _tell_budget(command, budgets.edit_budget(books, found.id, changes), "changed")


@verb("budget remove", "budget remove team", arguments=(_BUDGET, JSON))
def budget_remove(command: Command, budget: str) -> None:
    """Remove a budget that no key spends from any more."""
    with command.open_books() as books:
        found = budgets.find_budget(books, budget)
        books.budgets.end(found.id)
        _tell_budget(command, found, "removed")


def _tell_budget(command: Command, budget: BudgetView, done: str) -> None:
    command.show(views.describe_budget(budget))
    name = "" if budget.name is None else f" '{budget.name}'"
    command.say(
        f"Budget {budget.id}{name} of account {budget.account},"
        f" {command.format_money(budget.amount_nano)} a {budget.period}, is {done}."
    )
