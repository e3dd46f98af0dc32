"""The verbs `calls`, `usage`, `statement` and `entries`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from operator import itemgetter
from typing import Final, Literal, get_args

from gateway.admin import views as shared
from gateway.admin.fields import Fields
from gateway.base.money import format_amount
from gateway.base.times import DAY_MS
from gateway.cli import accounts  # noqa: F401 - whose list of accounts this one replaces
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.verbs import ACCOUNT, LIMIT, SINCE, UNTIL, arg, choice, verb
from gateway.extras.observations.records import UpstreamFailure
from gateway.extras.reports import views
from gateway.extras.reports.calls import CallBook
from gateway.extras.reports.entries import EntryFilter, EntryRuns
from gateway.extras.reports.records import (
    CallFilter,
    CallView,
    OutcomeFilter,
    ProviderCosts,
    Usage,
    UsageGroup,
    sum_costs,
    sum_statement,
    sum_usage,
)
from gateway.extras.reports.standings import STANDING, StandingBook, StandingView
from gateway.extras.reports.statements import StatementBook, read_month
from gateway.extras.reports.usage import UsageBook
from gateway.extras.reports.views import show_latest
from gateway.extras.spreadsheets.tables import make_formats, show_rows, write_csv
from gateway.ledger.records import EntryKind, EntryView
from gateway.ledger.sql.books import Books


@verb(
    "calls",
    examples=(
        "calls --outcome failed --since yesterday",
        "calls --account alice --status 502 --limit 5 --json",
        "calls --slower-than 10s --since 24h",
        "calls --slowest 20 --since 24h",
    ),
    arguments=(
        ACCOUNT,
        arg("--key", "KEY", "only this key: its id, or its name if no other has it"),
        arg("--model", "M", "only this model"),
        arg("--provider", "P", "only this provider"),
        choice("--outcome", tuple(views.OUTCOMES), "only calls that ended so"),
        arg("--status", read.count, "only this status of the reply"),
        arg(
            "--slower-than", read.duration_seconds, "only calls that took longer, such as 10s or 2m"
        ),
        arg("--slowest", read.count, "the N that took longest instead of the latest"),
        SINCE,
        UNTIL,
        LIMIT,
    ),
)
def list_calls(
    command: Command,
    *,
    account: str | None,
    key: str | None,
    model: str | None,
    provider: str | None,
    outcome: OutcomeFilter | None,
    status: int | None,
    slower_than: int | None,
    slowest: int | None,
    since: int | None,
    until: int | None,
    limit: int,
) -> None:
    books = command.open_books()
    chosen = CallFilter(
        None if account is None else books.accounts.find_id(account),
        key_id=None if key is None else books.keys.find_id(key),
        model=model,
        provider=provider,
        outcome=outcome,
        status=status,
        slower_than_ms=None if slower_than is None else slower_than * 1000,
        since_ms=since,
        until_ms=until,
    )
    calls = CallBook(books)
    if slowest is not None:
        found = calls.read_slowest(chosen, None, slowest)
        limit = slowest
    else:
        found = calls.read_page(chosen, None, limit + 1)
    failures = calls.read_last_failures(found)
    show_latest(command, "call", found, _add_errors(failures), limit)


def _add_errors(failures: Mapping[str, UpstreamFailure]) -> Fields[CallView]:
    """Return the fields of a call, with the provider's own names for its last error."""

    def describe(call: CallView) -> dict[str, object] | None:
        failure = failures.get(call.request_id)
        return None if failure is None else _ERROR.describe(failure)

    def write(call: CallView) -> str:
        described = describe(call) or {}
        return " ".join(str(value) for value in described.values() if value) or "-"

    return Fields[CallView](
        *views.CALL.members,
        ("provider_error", describe),
        table=(*views.CALL.columns, ("PROVIDER ERROR", write)),
    )


_ERROR: Final = Fields[UpstreamFailure]("status", "type", "code", "param")


@verb(
    "usage",
    examples=(
        "usage --since 7d",
        "usage --by account --since today",
        "usage --account alice --by model --since yesterday",
        "usage --since 2026-11-01 --until 2026-11-30 --csv > usage.csv",
    ),
    arguments=(
        ACCOUNT,
        choice("--by", get_args(UsageGroup), "one line for each", default="day"),
        SINCE,
        UNTIL,
    ),
    either=make_formats(),
)
def usage(
    command: Command,
    *,
    account: str | None,
    by: UsageGroup,
    since: int | None,
    until: int | None,
    csv: bool,
) -> None:
    books = command.open_books()
    rows = UsageBook(books).sum_with_costs(account=account, by=by, since_ms=since, until_ms=until)
    fields = _make_fields(books, by, has_costs=any(any(costs) for *_, costs in rows))
    total = "", sum_usage(sums for _, sums, _ in rows), sum_costs(costs for *_, costs in rows)
    numbers = [write(total) for title, write in fields.columns if title.startswith(">")]
    names = ["total", *[""] * (len(fields.columns) - len(numbers) - 1)]
    show_rows(command, rows, fields, (*names, *numbers) if len(rows) > 1 else (), as_csv=csv)


_Sums = tuple[str, Usage, ProviderCosts]
"""The name of a group, and its sums."""


def _make_fields(books: Books, by: UsageGroup, *, has_costs: bool) -> Fields[_Sums]:
    """Return a group's fields, among them a key's account and name; tables have costs if any are known."""
    keys = {key.id: key for key in books.keys.read_all()} if by == "key" else {}
    owner = Fields[_Sums](
        ("account", lambda row: keys[row[0]].account),
        ("key_name", lambda row: keys[row[0]].terms.name),
        table=("account", ("NAME", "key_name")),
    )
    parts = [owner] if by == "key" else []
    parts += [views.USAGE.under(itemgetter(1)), views.COSTS.under(itemgetter(2))]
    shown = parts if has_costs else parts[:-1]
    return Fields(
        (by, itemgetter(0)),
        *(member for part in parts for member in part.members),
        table=(
            ("DAY UTC", by) if by == "day" else by,
            *(column for part in shown for column in part.columns),
        ),
    )


@verb(
    "statement",
    examples=(
        "statement --month 2026-10",
        "statement --month 2026-10 --account alice",
        "statement --month 2026-10 --csv > october.csv",
    ),
    arguments=(
        arg(
            "--month",
            read_month,
            "the calendar month (UTC), such as 2026-10",
            metavar="MONTH",
            required=True,
        ),
        ACCOUNT,
    ),
    either=make_formats(),
)
def statement(command: Command, month: tuple[int, int], account: str | None, *, csv: bool) -> None:
    lines = StatementBook(command.open_books()).read(*month, account)
    if account is None:
        lines.append(sum_statement(lines))
    show_rows(command, lines, views.STATEMENT, as_csv=csv)


_RUN: Final = 5000
"""Entries that are read at once: millions need not be in memory together."""
_ENTRY: Final = Fields[EntryView](*shared.ENTRY.members, table=("account", *shared.ENTRY.columns))


@verb(
    "entries",
    examples=(
        "entries --since 7d --kind correction",
        "entries --since 2026-10-01 --until 2026-10-31 --csv > october.csv",
    ),
    arguments=(
        ACCOUNT,
        choice("--kind", get_args(EntryKind), "only entries of this kind"),
        SINCE,
        UNTIL,
        LIMIT,
    ),
    either=make_formats("write all of them as CSV to stdout"),
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
        command.output.print(write_csv((), shared.ENTRY.names))
        for run in _read_runs(books, chosen):
            rows = map(shared.ENTRY.describe, run)
            if text := write_csv(rows, shared.ENTRY.names, header=False):
                command.output.print(text)
        return
    every = chain.from_iterable(_read_runs(books, chosen))
    show_latest(command, "entry", [*islice(every, limit + 1)], _ENTRY, limit)


def _read_runs(books: Books, chosen: EntryFilter) -> Iterator[tuple[EntryView, ...]]:
    below_id: int | None = None
    while True:
        run = EntryRuns(books).read_run(chosen, below_id, _RUN)
        yield run.entries
        below_id = run.next_id
        if below_id is None:
            return


Order = Literal["name", "balance", "lasts"]
_ORDERS: Final[Mapping[Order, Callable[[StandingView], tuple[int | str, ...]]]] = {
    "name": lambda one: (one.account.name,),
    "balance": lambda one: (one.account.balance_nano, one.account.name),
    "lasts": lambda one: (one.days_left is None, one.days_left or 0, one.account.name),
}


@verb(
    "account list",
    examples=("account list", "account list --sort lasts", "account list --json"),
    arguments=(
        choice(
            "--sort",
            get_args(Order),
            "by name, or the least balance first, or first what lasts for the fewest days at the rate"
            " of the last 7",
            default="name",
        ),
    ),
)
def account_list(command: Command, sort: Order) -> None:
    """List the accounts with their balances, and how long these last."""
    books = command.open_books()
    ids = [account_id for _, account_id in books.accounts.find_names(None)]
    found = StandingBook(books).read_standings(ids, today=books.clock() // DAY_MS)
    found.sort(key=_ORDERS[sort])
    balance_nano = sum(one.account.balance_nano for one in found)
    held_nano = sum(one.account.held_nano for one in found)
    week_nano = sum(one.spent.week_nano for one in found)
    total = ("total", *map(format_amount, (balance_nano, held_nano, week_nano)))
    command.show_list(found, STANDING, total if len(found) > 1 else ())
