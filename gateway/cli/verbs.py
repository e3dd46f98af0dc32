"""The verbs for accounts, usage, audit and backup. A verb returns its exit code; None means OK."""

from __future__ import annotations

from functools import partial

from gateway.admin import accounts, views
from gateway.cli.check import describe_config, page_config
from gateway.cli.command import Command
from gateway.cli.tables import ACCOUNTS, INTERRUPTED, csv_usage, page_account, render, table_usage
from gateway.cli.unit import explain, find_addresses, find_installation, warn
from gateway.exit_codes import ExitCode
from gateway.ledger import AccountView, EntryView
from gateway.money import format_amount
from gateway.server import make_service, make_socket, run_server


def serve(command: Command) -> int:
    return run_server(command.config)


def check(command: Command) -> None:
    command.show(describe_config(command.config), page_config(command.config))
    if not command.config.active_models():
        command.say(
            "No model is on, so callers get an empty list of models. Set a provider's key to"
            " turn its models on."
        )


def audit(command: Command) -> int:
    with command.open_books() as books:
        report = books.audit()
    text = (
        f"accounts {report.accounts}, entries {report.entries}, "
        f"requests pending {report.pending}, interrupted {report.interrupted}"
    )
    if report.to_settle:
        text += "\n\n" + render(INTERRUPTED, report.to_settle, command.currency)
    command.show(views.describe_audit(report), text)
    if report.unsettled:
        command.say(
            f"Interrupted requests to settle: {report.unsettled}. Nothing was charged for them."
            " Settle each with `account correct --request ID`."
        )
    for problem in report.problems:
        command.say(problem)
    command.say("The books are in order." if report.ok else "The books do not add up.")
    return ExitCode.OK if report.ok else ExitCode.AUDIT_MISMATCH


def backup(command: Command) -> None:
    target = command.options.file
    with command.open_books() as books:
        size = accounts.back_up(books, target)
    command.show({"file": str(target), "bytes": size})
    command.say(f"{command.config.storage.path} is copied to {target}, {size} bytes.")


def unit(command: Command) -> None:
    place, server = find_installation(command.config), command.config.server
    if command.options.socket:
        command.output.print(make_socket(find_addresses(server)))
        return
    service = make_service(place, server)
    command.output.print(service)
    command.say(explain(place))
    if note := warn(service, place):
        command.say(note)


# ---- accounts ------------------------------------------------------------------------------------


def account_add(command: Command) -> None:
    options = command.options
    with command.open_books(create=True) as books:
        account = accounts.add_account(
            books, options.name, credit_nano=options.credit, operator=options.operator
        )
    _tell_account(command, account, "added")


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
    with command.open_books() as books:
        _tell_account(command, accounts.suspend(books, command.options.name), "suspended")


def account_resume(command: Command) -> None:
    with command.open_books() as books:
        _tell_account(command, books.accounts.resume(command.options.name), "resumed")


def _tell_account(command: Command, account: AccountView, done: str) -> None:
    command.show(views.describe_account(account))
    balance = command.format_money(account.balance_nano)
    command.say(f"Account {account.name} {done}; its balance is {balance}.")


def _tell_entry(command: Command, entry: EntryView) -> None:
    command.show(views.describe_entry(entry))
    amount = format_amount(entry.amount_nano)
    balance = command.format_money(entry.balance_after_nano)
    command.say(f"Account {entry.account}: {entry.kind} {amount}; its balance is {balance}.")


# ---- usage ---------------------------------------------------------------------------------------


def usage(command: Command) -> None:
    options = command.options
    with command.open_books() as books:
        rows = accounts.usage(
            books,
            account=options.account,
            by=options.by,
            since_ms=options.since,
            until_ms=options.until,
        )
    table = csv_usage if options.csv else partial(table_usage, currency=command.currency)
    described = [{options.by: group, **views.describe_usage(sums)} for group, sums in rows]
    command.show(described, table(rows, options.by))
