"""The verbs for accounts: balances, limits, roles, suspension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, Unpack, get_args

from gateway.admin import views
from gateway.base.money import align_points, format_amount
from gateway.base.times import format_moment
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.keys import warn_of_unknown_models
from gateway.cli.output import render, render_fields
from gateway.cli.verbs import arg, choice, edit, flag, make_limits, verb
from gateway.extension import find_advice
from gateway.ledger.key_records import TermChanges, Terms
from gateway.ledger.records import AccountView, EntryView
from gateway.ledger.sql.books import Books

Role = Literal["holder", "operator"]

_NAME: Final = arg("name", "NAME", "the account's name")
_IDEMPOTENCY_KEY: Final = arg(
    "--idempotency-key", "KEY", "any text; a second command with the same KEY changes nothing"
)


@verb(
    "account add",
    examples=("account add alice --credit 20 --rpm 600", "account add admin --operator"),
    arguments=(
        arg("name", "NAME", "a name that is not yet taken"),
        arg("--credit", read.amount_or_zero, "the balance to begin with", default=0),
        flag("--operator", "make it an operator's account"),
        *make_limits(arg),
    ),
)
def account_add(
    command: Command, name: str, credit: int, *, operator: bool, **terms: Unpack[TermChanges]
) -> None:
    """Add an account; create the database, or PostgreSQL's tables, if there is none."""
    warn_of_unknown_models(command, terms)
    books = command.open_books(create=True)
    account = books.accounts.create(
        name, credit_nano=credit, operator=operator, terms=Terms(**terms)
    )
    _tell_account(command, account, "added")
    warn_of_likeness(command, books, [account.name])


@verb(
    "account edit",
    examples=(
        "account edit alice --concurrency 20 --models gpt-5.4-nano,demo/echo",
        "account edit alice --rpm none --role operator",
    ),
    arguments=(
        _NAME,
        *make_limits(edit),
        choice("--role", get_args(Role), "a new role ends the account's sessions"),
    ),
)
def account_edit(
    command: Command, name: str, role: Role | None, **changes: Unpack[TermChanges]
) -> None:
    """Change what all keys of an account may use together, or its role."""
    warn_of_unknown_models(command, changes)
    operator = None if role is None else role == "operator"
    books = command.open_books()
    account = books.accounts.edit(name, changes, operator=operator)
    books.wait_in_force()
    _tell_account(command, account, "changed")


def warn_of_likeness(command: Command, books: Books, names: Sequence[str]) -> None:
    """Say which new accounts people may take for other ones."""
    known = (name for name, _ in books.accounts.find_names(None))
    for note in find_advice().note_names(names, known):
        command.say(f"Note: {note}")


@verb("account list", examples=("account list", "account list --json"))
def account_list(command: Command) -> None:
    """List the accounts with their balances."""
    command.show_list(command.open_books().accounts.read_all(), views.ACCOUNT)


@verb("account show", examples=("account show alice",), arguments=(_NAME,))
def account_show(command: Command, name: str) -> None:
    """Show an account with its keys and latest entries."""
    books = command.open_books()
    account, keys = books.accounts.read(name), books.keys.read_all(name)
    entries = books.entries.read_latest(name, views.LATEST_ENTRIES)
    described = {
        **views.ACCOUNT.describe(account),
        "keys": [views.KEY.describe(one) for one in keys],
        "entries": [views.ENTRY.describe(one) for one in entries],
    }
    parts = [_render_account(account, command.currency)]
    if keys:
        parts.append("Keys\n" + render(views.KEY.columns, keys, command.currency))
    if entries:
        parts.append("Latest entries\n" + render(views.ENTRY.columns, entries, command.currency))
    command.show(described, "\n\n".join(parts))


@verb(
    "account credit",
    examples=(
        'account credit alice 20 --note "invoice 17"',
        "account credit alice 20 --idempotency-key invoice-17",
    ),
    arguments=(
        _NAME,
        arg(
            "amount",
            read.amount_above_zero,
            "how much to add, such as 5 or 0.25; `account correct` takes money",
        ),
        arg("--note", "TEXT", "the reason, kept with the entry"),
        _IDEMPOTENCY_KEY,
    ),
)
def account_credit(
    command: Command, name: str, amount: int, note: str | None, idempotency_key: str | None
) -> None:
    """Add money to an account's balance."""
    books = command.open_books()
    entry = books.entries.credit(name, amount, note=note or "", idempotency_key=idempotency_key)
    tell_entry(command, entry)


@verb(
    "account correct",
    examples=(
        'account correct alice 0.5 --note "charged twice today"',
        'account correct alice -5 --note "credited twice"',
        'account correct alice -0.25 --note "interrupted" --request req_0123456789abcdef',
        'account correct alice 0 --note "no reply" --request req_0123456789abcdef',
    ),
    arguments=(
        _NAME,
        arg("amount", read.amount, "how much: 0.5 gives money back, -0.5 takes it"),
        arg("--note", "TEXT", "the reason", required=True),
        arg("--request", "ID", "the interrupted request that this settles"),
        _IDEMPOTENCY_KEY,
    ),
)
def account_correct(
    command: Command,
    name: str,
    amount: int,
    *,
    note: str,
    request: str | None,
    idempotency_key: str | None,
) -> None:
    """Correct a balance: an amount above 0 gives money back, one below 0 takes it."""
    books = command.open_books()
    entry = books.entries.correct(
        name, amount, note=note, request_id=request, idempotency_key=idempotency_key
    )
    tell_entry(command, entry)


@verb("account suspend", examples=("account suspend alice",), arguments=(_NAME,))
def account_suspend(command: Command, name: str) -> None:
    """Refuse an account's requests until it is resumed."""
    books = command.open_books()
    account = books.accounts.suspend(name)
    has_operator = any(one.operator and not one.suspended for one in books.accounts.read_all())
    books.wait_in_force()
    _tell_account(command, account, "suspended")
    if account.operator and not has_operator:
        command.say("It was the last operator: only commands can manage accounts now.")


@verb("account resume", examples=("account resume alice",), arguments=(_NAME,))
def account_resume(command: Command, name: str) -> None:
    """Accept a suspended account's requests again."""
    _tell_account(command, command.open_books().accounts.resume(name), "resumed")


def _tell_account(command: Command, account: AccountView, done: str) -> None:
    command.show(views.ACCOUNT.describe(account))
    balance = command.format_money(account.balance_nano)
    command.say(f"Account {account.name} {done}; its balance is {balance}.")


def tell_entry(command: Command, entry: EntryView) -> None:
    command.show(views.ENTRY.describe(entry))
    amount = format_amount(entry.amount_nano)
    if entry.is_repeated:
        command.say(
            f"Account {entry.account}: {entry.kind} {amount} was already posted on"
            f" {format_moment(entry.created_ms)} UTC"
            f"{f' for {entry.request_id}' if entry.request_id else ' with this idempotency key'};"
            " nothing added."
        )
        return
    balance = command.format_money(entry.balance_after_nano)
    command.say(f"Account {entry.account}: {entry.kind} {amount}; its balance is {balance}.")


def _render_account(account: AccountView, currency: str) -> str:
    amounts_nano = (account.balance_nano, account.held_nano, account.available_nano)
    balance, held, available = align_points([format_amount(nano) for nano in amounts_nano])
    fields = (
        ("account", account.name),
        ("balance", f"{balance} {currency}"),
        ("held", f"{held} {currency}"),
        ("available", f"{available} {currency}"),
        ("state", views.describe_account_state(account)),
        ("limits", views.describe_limits(account.terms)),
        ("models", views.describe_models(account.terms)),
        ("created", f"{format_moment(account.created_ms)} UTC"),
    )
    return render_fields(fields)
