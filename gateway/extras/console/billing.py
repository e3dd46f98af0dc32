"""The signed-in account's balance and its entries.

Operators list the entries of all accounts or of one, and read the statement of a time.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import Final, get_args

from aiohttp import web

from gateway.admin import views
from gateway.admin.fields import describe
from gateway.base.times import DAY_MS, format_day
from gateway.extras.console.additions import find_additions
from gateway.extras.console.errors import invalid_field
from gateway.extras.console.lists import CHUNK_ROWS, Json, Page, read_page, stream_csv
from gateway.extras.console.routes import READERS, Answer, ConsoleRequest, async_route, route
from gateway.extras.reports.entries import EntryFilter, EntryRun, EntryRuns
from gateway.extras.reports.records import StatementLine, sum_statement
from gateway.extras.reports.statements import StatementBook
from gateway.extras.reports.views import STATEMENT
from gateway.ledger.records import EntryKind, EntryView
from gateway.ledger.sql.books import Books

_RUN: Final = 2000
"""Entries per read while a page of past days is searched: a read takes a few milliseconds."""


@async_route("GET", "/billing", "any")
async def show_billing(request: ConsoleRequest) -> Answer:
    """Show the balance and a page of entries, the latest first, of all days or of some."""
    page, chosen = read_page(request, int), _choose_entries(request, request.account.id)
    figures = await request.run(partial(_describe_balance, request, chosen))
    found = await _find_entries(request, chosen, page)
    return page.answer("entries", found, views.ENTRY.describe, **figures)


def _describe_balance(request: ConsoleRequest, chosen: EntryFilter, books: Books) -> Json:
    account = books.accounts.read(request.account.name)
    is_all = chosen.since_ms is chosen.until_ms is None
    ways: dict[str, object] = {}
    for one in find_additions():
        ways |= one.describe_credit(request.gateway)
    return {
        **describe(account, "balance_nano", "held_nano", "available_nano"),
        **ways,
        "count": EntryRuns(books).count(account.id, chosen.kind) if is_all else None,
    }


@async_route("GET", "/billing.csv", "any")
async def download_billing(request: ConsoleRequest) -> web.StreamResponse:
    chosen = _choose_entries(request, request.account.id)
    return await stream_csv(request, "billing", views.ENTRY.names, partial(_read_chunk, chosen))


def _choose_entries(request: ConsoleRequest, account_id: int | None) -> EntryFilter:
    kind = request.query.optional_choice("kind", get_args(EntryKind))
    return EntryFilter(account_id, kind, *request.query.span_ms())


def _read_chunk(
    chosen: EntryFilter, books: Books, below_id: int | None
) -> tuple[list[Json], int | None]:
    run = EntryRuns(books).read_run(chosen, below_id, CHUNK_ROWS)
    return [views.ENTRY.describe(entry) for entry in run.entries], run.next_id


# ---- operators: the books of all accounts --------------------------------------------------------


@async_route("GET", "/entries", "operator", READERS)
async def list_all_entries(request: ConsoleRequest) -> Answer:
    """List entries, the latest first."""
    page = read_page(request, int)
    chosen = _choose_entries(request, await request.run(request.find_named))
    found = await _find_entries(request, chosen, page)
    return page.answer("entries", found, views.ENTRY.describe)


async def _find_entries(
    request: ConsoleRequest, chosen: EntryFilter, page: Page
) -> list[EntryView]:
    """Return the entries of a page, and one more if there are more.

    Times have no index, so entries of past days are searched in runs, between which other requests get
    the books' thread.
    """
    found: list[EntryView] = []
    below_id, limit = page.after_number, page.wanted
    while len(found) < page.wanted:
        run = await request.run(partial(_read_run, chosen, below_id, limit))
        found += run.entries
        if run.next_id is None:
            break
        below_id, limit = run.next_id, _RUN
    return found


def _read_run(chosen: EntryFilter, below_id: int | None, limit: int, books: Books) -> EntryRun:
    return EntryRuns(books).read_run(chosen, below_id, limit)


@async_route("GET", "/entries.csv", "operator", READERS)
async def download_all_entries(request: ConsoleRequest) -> web.StreamResponse:
    chosen = _choose_entries(request, await request.run(request.find_named))
    return await stream_csv(request, "entries", views.ENTRY.names, partial(_read_chunk, chosen))


@route("GET", "/statement", "operator", READERS)
def show_statement(books: Books, request: ConsoleRequest) -> Answer:
    """Show the openings, movements and closings of all accounts, by name, with their total."""
    first, last, lines = _read_statement(books, request)
    page = read_page(request, str)
    after = page.after_text
    places = [one.account for one in lines]
    begin = 0 if after is None else 1 + (places.index(after) if after in places else len(places))
    totals = STATEMENT.describe(sum_statement(lines))
    return page.answer(
        "rows",
        lines[begin : begin + page.wanted],
        STATEMENT.describe,
        attrgetter("account"),
        **{"from": format_day(first), "to": format_day(last)},
        currency=request.gateway.config.billing.currency,
        count=len(lines),
        totals={name: value for name, value in totals.items() if name != "account"},
    )


@async_route("GET", "/statement.csv", "operator", READERS)
async def download_statement(request: ConsoleRequest) -> web.StreamResponse:
    def read(books: Books, _: None) -> tuple[list[Json], None]:
        _first, _last, lines = _read_statement(books, request)
        if request.query.text("account") is None:
            lines.append(sum_statement(lines))
        return [STATEMENT.describe(one) for one in lines], None

    return await stream_csv(request, "statement", STATEMENT.names, read)


def _read_statement(books: Books, request: ConsoleRequest) -> tuple[int, int, list[StatementLine]]:
    """Read the days, by default the present month up to today, and what moved the balances."""
    first, last = request.query.days()
    last = books.clock() // DAY_MS if last is None else last
    if first is None:
        first = last - int(format_day(last)[-2:]) + 1
    if first > last:
        raise invalid_field("from", "'from' must not be after today.")
    request.find_named(books)
    return first, last, StatementBook(books).read(first, last + 1, request.query.text("account"))
