"""The operator's verbs: each takes a call, does one thing and returns the exit code."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway import accounts
from gateway.cli_check import describe_config, page_config
from gateway.cli_output import Console
from gateway.cli_tables import (
    csv_usage,
    page_account,
    table_accounts,
    table_interrupted,
    table_usage,
)
from gateway.cli_unit import explain, find_addresses, find_installation, warn
from gateway.config import Config
from gateway.money import format_amount
from gateway.times import unix_ms
from gateway.unit import make_service, make_socket
from gateway.views import (
    describe_account,
    describe_audit,
    describe_detail,
    describe_entry,
    describe_usage,
)

OK: Final = 0
AUDIT_MISMATCH: Final = 3


@dataclass(frozen=True, slots=True)
class Call:
    """One command: what was asked, of which configuration, and where the answer goes."""

    options: argparse.Namespace
    config: Config
    console: Console

    @property
    def currency(self) -> str:
        return self.config.billing.currency

    def open_books(self, *, create: bool = False) -> accounts.Books:
        return accounts.open_books(self.config.storage.path, create=create)


def serve(call: Call) -> int:
    from gateway.serve import run  # no other verb should wait for the server's imports

    return run(call.config)


def check(call: Call) -> int:
    if call.options.json:
        call.console.print_json(describe_config(call.config))
    else:
        call.console.print(page_config(call.config))
    if not call.config.active_models():
        call.console.say("No model is on: callers will find the list of models empty.")
    return OK


def audit(call: Call) -> int:
    with call.open_books() as books:
        report = accounts.audit(books)
    if call.options.json:
        call.console.print_json(describe_audit(report))
    else:
        call.console.print(
            f"accounts {report.accounts}, entries {report.entries}, "
            f"requests pending {report.pending}, interrupted {report.interrupted}"
        )
        if report.to_settle:
            call.console.print("\n" + table_interrupted(report.to_settle, call.currency))
    if report.unsettled:
        call.console.say(
            f"Interrupted requests to settle: {report.unsettled}. Nothing was charged for them;"
            " see `account correct --help`."
        )
    for problem in report.problems:
        call.console.say(problem)
    call.console.say("The books are in order." if report.ok else "The books do not add up.")
    return OK if report.ok else AUDIT_MISMATCH


def backup(call: Call) -> int:
    target: Path = call.options.file
    with call.open_books() as books:
        size = accounts.back_up(books, target)
    if call.options.json:
        call.console.print_json({"file": str(target), "bytes": size})
    call.console.say(f"{target} has all of {call.config.storage.path}, {size} bytes.")
    return OK


def unit(call: Call) -> int:
    place, server = find_installation(call.config), call.config.server
    if call.options.socket:
        call.console.print(make_socket(find_addresses(server)))
        return OK
    service = make_service(place, server)
    call.console.print(service)
    call.console.say(explain(place))
    if note := warn(service, place):
        call.console.say(note)
    return OK


# ---- accounts ------------------------------------------------------------------------------------


def account_add(call: Call) -> int:
    options = call.options
    with call.open_books(create=True) as books:
        account = accounts.add_account(
            books, options.name, credit_nano=options.credit, operator=options.operator
        )
    return _tell_account(call, account, "added")


def account_list(call: Call) -> int:
    with call.open_books() as books:
        found = accounts.list_accounts(books)
    if call.options.json:
        call.console.print_json([describe_account(account) for account in found])
    else:
        call.console.print(table_accounts(found, call.currency))
    return OK


def account_show(call: Call) -> int:
    with call.open_books() as books:
        detail = accounts.show_account(books, call.options.name)
    if call.options.json:
        call.console.print_json(describe_detail(detail))
    else:
        call.console.print(page_account(detail, call.currency, unix_ms()))
    return OK


def account_credit(call: Call) -> int:
    options = call.options
    with call.open_books() as books:
        entry = accounts.credit(
            books,
            options.name,
            options.amount,
            note=options.note or "",
            idempotency_key=options.idempotency_key,
        )
    return _tell_entry(call, entry)


def account_correct(call: Call) -> int:
    options = call.options
    with call.open_books() as books:
        entry = accounts.correct(
            books,
            options.name,
            options.amount,
            note=options.note,
            request_id=options.request,
            idempotency_key=options.idempotency_key,
        )
    return _tell_entry(call, entry)


def account_suspend(call: Call) -> int:
    with call.open_books() as books:
        account = accounts.suspend(books, call.options.name)
    return _tell_account(call, account, "suspended")


def account_resume(call: Call) -> int:
    with call.open_books() as books:
        account = accounts.resume(books, call.options.name)
    return _tell_account(call, account, "resumed")


def _tell_account(call: Call, account: accounts.AccountView, done: str) -> int:
    if call.options.json:
        call.console.print_json(describe_account(account))
    balance = f"{format_amount(account.balance_nano)} {call.currency}"
    call.console.say(f"Account {account.name} {done}; its balance is {balance}.")
    return OK


def _tell_entry(call: Call, entry: accounts.EntryView) -> int:
    if call.options.json:
        call.console.print_json(describe_entry(entry))
    amount = format_amount(entry.amount_nano)
    balance = f"{format_amount(entry.balance_after_nano)} {call.currency}"
    call.console.say(f"Account {entry.account}: {entry.kind} {amount}; its balance is {balance}.")
    return OK


# ---- usage ---------------------------------------------------------------------------------------


def usage(call: Call) -> int:
    options = call.options
    with call.open_books() as books:
        rows = accounts.usage(
            books,
            account=options.account,
            by=options.by,
            since_ms=options.since,
            until_ms=options.until,
        )
    if options.json:
        call.console.print_json([describe_usage(row, options.by) for row in rows])
    elif options.csv:
        call.console.print(csv_usage(rows, options.by))
    else:
        call.console.print(table_usage(rows, options.by, call.currency))
    return OK
