"""The grammar of the verbs for budgets, and the options by which keys get one."""

from __future__ import annotations

from typing import Final

from gateway.cli import arguments as read
from gateway.cli import budgets
from gateway.cli.account_grammar import JSON
from gateway.cli.parser import Verb, arg

BUDGET: Final = (
    "--budget",
    "AMOUNT/PERIOD|NAME",
    read.budget,
    "the most it may spend per day, week or month, such as 10/month; or a shared budget's name",
)
_ALLOWANCE: Final = "the most that may be spent in each day, week or month (UTC), such as 100/month"
_BUDGET_ID: Final = arg("id", "ID|NAME", read.word, "the id or the name, as `budget list` shows it")

BUDGET_VERBS: Final[tuple[Verb, ...]] = (
    Verb(
        "budget add",
        "Add a budget that several keys of an account can share.",
        budgets.budget_add,
        ("budget add alice team 100/month", "budget add alice ci 5/day --json"),
        (
            arg("account", "ACCOUNT", read.word, "the account whose keys may spend from it"),
            arg("name", "NAME", read.word, "its name, which no other budget of the account has"),
            arg("allowance", "AMOUNT/PERIOD", read.allowance, _ALLOWANCE),
            JSON,
        ),
    ),
    Verb(
        "budget list",
        "List budgets: what is spent, what remains, and when they begin anew.",
        budgets.budget_list,
        ("budget list", "budget list alice --json"),
        (
            arg("account", "ACCOUNT", read.word, "list only those of this account", nargs="?"),
            JSON,
        ),
    ),
    Verb(
        "budget edit",
        "Change a budget. What was spent in the present period stays spent.",
        budgets.budget_edit,
        ("budget edit team 200/month", "budget edit 3 --name crew"),
        (
            _BUDGET_ID,
            arg("allowance", "AMOUNT/PERIOD", read.allowance, _ALLOWANCE, nargs="?"),
            arg("--name", "NEW", read.word, "another name"),
            JSON,
        ),
    ),
    Verb(
        "budget remove",
        "Remove a budget that no key spends from any more.",
        budgets.budget_remove,
        ("budget remove team",),
        (_BUDGET_ID, JSON),
    ),
)
