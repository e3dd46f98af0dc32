"""The verbs for top-up codes and budgets."""

from __future__ import annotations

from typing import Final, get_args

from gateway.admin import accounts, codes, views
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.verbs import arg, choice, flag, verb
from gateway.ledger.key_records import Allowance, BudgetChanges, BudgetView
from gateway.ledger.records import CodeStatus


@verb(
    "code make",
    "code make --amount 5 --count 20 --expires 90d > codes.txt",
    'code make --amount 25 --note "spring course"',
    arg("--amount", "AMOUNT", read.amount_above_zero, "the value of each code", required=True),
    arg("--count", "N", read.count, "the number of codes", default=1),
    arg(
        "--expires",
        "TIME",
        read.expiry,
        "when they expire: 30d, 2026-12-31 or 2026-12-31T18:00 in UTC (default: never)",
    ),
    arg("--note", "TEXT", read.word, "their purpose, shown in lists"),
)
def code_make(
    command: Command, amount: int, count: int, expires: read.Expiry | None, note: str | None
) -> None:
    """Make top-up codes and print them on stdout, one per line. They are shown only once."""
    with command.open_books() as books:
        expires_ms = read.resolve_expiry(expires, books.clock())
        made = codes.make_codes(books, amount, count, expires_ms=expires_ms, note=note or "")
    worth = command.format_money(made.amount_nano)
    # First, on stderr: if the codes get lost, their batch can be voided.
    command.say(f"Batch {made.batch}: {count} of {worth}, shown this once:")
    command.show(views.NEW_CODES.describe(made), "\n".join(made.codes))


@verb(
    "code list",
    "code list",
    "code list --status open --json",
    choice("--status", get_args(CodeStatus), "list only codes with this status"),
)
def code_list(command: Command, status: CodeStatus | None) -> None:
    """List codes, without their secrets."""
    with command.open_books() as books:
        _, found = books.codes.read_page(status, None, None, None)
    command.show_list(found, views.CODE)


@verb(
    "code void",
    "code void ID",
    "code void --batch ID",
    arg("id", "ID", read.word, "the id, as shown by `code list`"),
    flag("--batch", "ID is the id of a batch"),
)
def code_void(command: Command, id: str, *, batch: bool) -> None:  # noqa: A002 - the argument's name
    """Void a code, or all open codes of a batch."""
    with command.open_books() as books:
        if batch:
            count = books.codes.void_batch(id)
            command.show({"voided": count})
            command.say(f"Batch {id}: {count} open codes are void.")
        else:
            code = books.codes.void(id)
            command.show(views.CODE.describe(code))
            command.say(f"Code {code.id} ({code.display}) is void.")


_ALLOWANCE: Final = "the most that may be spent in each day, week or month (UTC), such as 100/month"
_BUDGET: Final = arg(
    "budget", "ID|NAME", read.word, "the id or the name, as `budget list` shows it"
)


@verb(
    "budget add",
    "budget add alice team 100/month",
    "budget add alice ci 5/day --json",
    arg("account", "ACCOUNT", read.word, "the account whose keys may spend from it"),
    arg("name", "NAME", read.word, "its name, which no other budget of the account has"),
    arg("allowance", "AMOUNT/PERIOD", read.allowance, _ALLOWANCE),
)
def budget_add(command: Command, account: str, name: str, allowance: Allowance) -> None:
    """Add a budget that several keys of an account can share."""
    with command.open_books() as books:
        made = accounts.add_budget(books, account, name, allowance)
        _tell_budget(command, made, "added")


@verb(
    "budget list",
    "budget list",
    "budget list alice --json",
    arg("account", "ACCOUNT", read.word, "list only those of this account", nargs="?"),
)
def budget_list(command: Command, account: str | None) -> None:
    """List budgets: what is spent, what remains, and when they begin anew."""
    with command.open_books() as books:
        command.show_list(books.budgets.read_all(account), views.BUDGET)


@verb(
    "budget edit",
    "budget edit team 200/month",
    "budget edit 3 --name crew",
    _BUDGET,
    arg("allowance", "AMOUNT/PERIOD", read.allowance, _ALLOWANCE, nargs="?"),
    arg("--name", "NEW", read.word, "another name"),
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
        found = accounts.find_budget(books, budget)
        _tell_budget(command, accounts.edit_budget(books, found.id, changes), "changed")


@verb("budget remove", "budget remove team", _BUDGET)
def budget_remove(command: Command, budget: str) -> None:
    """Remove a budget that no key spends from any more."""
    with command.open_books() as books:
        found = accounts.find_budget(books, budget)
        books.budgets.end(found.id)
        _tell_budget(command, found, "removed")


def _tell_budget(command: Command, budget: BudgetView, done: str) -> None:
    command.show(views.BUDGET.describe(budget))
    name = "" if budget.name is None else f" '{budget.name}'"
    command.say(
        f"Budget {budget.id}{name} of account {budget.account},"
        f" {command.format_money(budget.amount_nano)} a {budget.period}, is {done}."
    )
