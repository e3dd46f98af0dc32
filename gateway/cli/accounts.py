"""The verbs for accounts: balances, limits, roles and suspension."""

from __future__ import annotations

from gateway.admin import accounts, views
from gateway.cli.command import Command
from gateway.cli.keys import read_term_changes, warn_of_unknown_models
from gateway.cli.tables import ACCOUNTS, page_account
from gateway.ledger import AccountView, EntryView, Terms
from gateway.money import format_amount
from gateway.times import format_moment


def account_add(command: Command) -> None:
    options = command.options
    warn_of_unknown_models(command)
    terms = Terms(options.models, options.rpm, options.tpm, options.concurrency)
    with command.open_books(create=True) as books:
        account = accounts.add_account(
            books,
            options.name,
            credit_nano=options.credit,
            operator=options.operator,
            terms=terms,
        )
    _tell_account(command, account, "added")


def account_edit(command: Command) -> None:
    options = command.options
    changes = read_term_changes(command)
    operator = None if options.role is None else options.role == "operator"
    with command.forbid() as books:
        account = accounts.edit_account(books, options.name, changes, operator=operator)
    _tell_account(command, account, "changed")


def account_list(command: Command) -> None:
    with command.open_books() as books:
        command.show_list(books.accounts.read_all(), views.describe_account, ACCOUNTS)


def account_show(command: Command) -> None:
    with command.open_books() as books:
        detail = accounts.show_account(books, command.options.name)
    command.show(views.describe_detail(detail), page_account(detail, command.currency))


def account_credit(command: Command) -> None:
    options = command.options
    with command.open_books() as books:
        entry = accounts.credit(
            books,
            options.name,
            options.amount,
            note=options.note or "",
            idempotency_key=options.idempotency_key,
        )
    _tell_entry(command, entry)


def account_correct(command: Command) -> None:
    options = command.options
    with command.open_books() as books:
        entry = accounts.correct(
            books,
            options.name,
            options.amount,
            note=options.note or "",
            request_id=options.request,
            idempotency_key=options.idempotency_key,
        )
    _tell_entry(command, entry)


def account_suspend(command: Command) -> None:
    with command.forbid() as books:
        account = accounts.suspend(books, command.options.name)
        has_operator = any(one.operator and not one.suspended for one in books.accounts.read_all())
    _tell_account(command, account, "suspended")
    if account.operator and not has_operator:
        command.say("It was the last operator: nobody can manage accounts in the console now.")


def account_resume(command: Command) -> None:
    with command.open_books() as books:
        _tell_account(command, books.accounts.resume(command.options.name), "resumed")


def account_end_sessions(command: Command) -> None:
    name = command.options.name
    with command.open_books() as books:
        ended = books.signins.end_all_sessions(name)
    command.show({"account": name, "ended": ended})
    command.say(f"Account {name} is signed out; sessions ended: {ended}. Sign-in links end too.")


def _tell_account(command: Command, account: AccountView, done: str) -> None:
    command.show(views.describe_account(account))
    balance = command.format_money(account.balance_nano)
    command.say(f"Account {account.name} {done}; its balance is {balance}.")


def _tell_entry(command: Command, entry: EntryView) -> None:
    command.show(views.describe_entry(entry))
    amount = format_amount(entry.amount_nano)
    if entry.is_repeated:
        command.say(
            f"Account {entry.account}: {entry.kind} {amount} was already posted on"
            f" {format_moment(entry.created_ms)} UTC with this idempotency key; nothing added."
        )
        return
    balance = command.format_money(entry.balance_after_nano)
    command.say(f"Account {entry.account}: {entry.kind} {amount}; its balance is {balance}.")
