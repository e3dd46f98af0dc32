"""The verbs of the month's books: entries, orders and statements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, get_args

from gateway.admin import views
from gateway.admin.fields import csv_lines, write_csv_cells
from gateway.cli import arguments as read
from gateway.cli.arguments import render
from gateway.cli.command import Command
from gateway.cli.verbs import ACCOUNT, JSON, LIMIT, SINCE, UNTIL, arg, choice, flag, verb
from gateway.ledger.call_records import sum_statement
from gateway.ledger.order_records import OrderState
from gateway.ledger.records import EntryFilter, EntryKind, EntryView
from gateway.ledger.sql.books.books import Books

_RUN: Final = 5000
"""Entries that are read at once."""


@verb(
    "entries",
    "entries --since 7d --kind correction",
    "entries --since 2026-10-01 --until 2026-10-31 --csv > october.csv",
    ACCOUNT,
    choice("--kind", get_args(EntryKind), "only entries of this kind"),
    SINCE,
    UNTIL,
    LIMIT,
    json=False,
    either=(JSON, flag("--csv", "write all of them as CSV to stdout")),
)
def entries(
    command: Command,
    *,
    account: str | None,
    kind: EntryKind | None,
    since: int | None,
    until: int | None,
    limit: int,
    csv: bool,
) -> None:
    books = command.open_books()
    account_id = None if account is None else books.accounts.find_id(account)
    chosen = EntryFilter(account_id, kind, since, until)
    if csv:
        names = views.ENTRY.names
        command.output.print(csv_lines([names]))
        for run in _read_runs(books, chosen):
            rows = (write_csv_cells(views.ENTRY.describe(one), names) for one in run)
            if text := csv_lines(rows):
                command.output.print(text)
        return
    found: list[EntryView] = []
    for run in _read_runs(books, chosen):
        found += run
        if len(found) > limit:
            break
    command.show_latest("entry", found, views.LEDGER_ENTRY, limit)


@verb(
    "orders",
    "orders --state made",
    "orders --account alice --since 30d",
    ACCOUNT,
    choice("--state", get_args(OrderState), "only orders in this state"),
    SINCE,
    LIMIT,
)
def orders(
    command: Command,
    *,
    account: str | None,
    state: OrderState | None,
    since: int | None,
    limit: int,
) -> None:
    books = command.open_books()
    if account is not None:
        books.accounts.find_id(account)
    found = books.orders.read_latest(account, state, since or 0, limit + 1)
    command.show_latest("order", found, views.ORDER, limit)


def _read_runs(books: Books, chosen: EntryFilter) -> Iterator[tuple[EntryView, ...]]:
    below_id: int | None = None
    while True:
        run = books.entries.read_run(chosen, below_id, _RUN)
        yield run.entries
        below_id = run.next_id
        if below_id is None:
            return


@verb(
    "statement",
    "statement --month 2026-10",
    "statement --month 2026-10 --account alice",
    "statement --month 2026-10 --csv > october.csv",
    arg("--month", "MONTH", read.month, "the calendar month (UTC), such as 2026-10", required=True),
    ACCOUNT,
    json=False,
    either=(JSON, flag("--csv", "write CSV to stdout")),
)
def statement(command: Command, month: tuple[int, int], account: str | None, *, csv: bool) -> None:
    lines = command.open_books().statements.read(*month, account)
    if account is None:
        lines.append(sum_statement(lines))
    described = [views.STATEMENT.describe(line) for line in lines]
    names = views.STATEMENT.names
    table = (
        csv_lines([names, *(write_csv_cells(row, names) for row in described)])
        if csv
        else render(views.STATEMENT.columns, lines, command.currency)
    )
    command.show(described, table)
