"""The signed-in account's balance, its entries and codes to redeem; operators: the books of all accounts.

Operators list the entries of all accounts or of one, and read the statement of a time.
"""

from __future__ import annotations

from functools import partial
from typing import Final, get_args

from aiohttp import web

from gateway.admin import keys, views
from gateway.console.api.orders import describe_cards
from gateway.console.fields import invalid_field, too_many_tries
from gateway.console.lists import CHUNK_ROWS, Json, Page, read_page, stream_csv
from gateway.console.routes import READERS, Answer, ConsoleRequest, async_route, route
from gateway.ledger.call_records import StatementLine, sum_statement
from gateway.ledger.records import EntryFilter, EntryKind, EntryRun, EntryView
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount
from gateway.times import DAY_MS, format_day

_RUN: Final = 2000
"""Entries that are looked at in one go for a page of past days: a few milliseconds."""


@route("GET", "/billing", "any")
def show_billing(books: Books, request: ConsoleRequest) -> Answer:
    """Show the balance and a page of entries, the latest first."""
    account = books.accounts.read(request.account.name)
    chosen = EntryFilter(account.id, _read_kind(request))
    figures = {
        **describe_amount("balance", account.balance_nano),
        **describe_amount("held", account.held_nano),
        **describe_amount("available", account.balance_nano - account.held_nano),
        **describe_cards(request.gateway.config.billing),
    }
    return answer_entries(books, request, chosen, figures)


def answer_entries(
    books: Books, request: ConsoleRequest, chosen: EntryFilter, figures: Json
) -> Answer:
    """Return a page of an account's entries, the latest first, behind `figures`."""
    page: Page = read_page(request, int)
    run = books.entries.read_run(chosen, page.after_number, page.wanted)
    count = books.entries.count(chosen.account_id, chosen.kind)
    return page.answer(
        "entries",
        run.entries,
        lambda entry: (entry.id,),
        views.ENTRY.describe,
        **{**figures, "count": count},
    )


@async_route("GET", "/billing.csv", "any")
async def download_billing(request: ConsoleRequest) -> web.StreamResponse:
    kind, days = _read_kind(request), request.query.span_ms()
    chosen = EntryFilter(request.account.id, kind, *days)
    return await stream_csv(request, "billing", views.ENTRY.names, partial(_read_chunk, chosen))


def _read_kind(request: ConsoleRequest) -> EntryKind | None:
    return request.query.optional_choice("kind", get_args(EntryKind))


def _read_chunk(
    chosen: EntryFilter, books: Books, below_id: int | None
) -> tuple[list[Json], int | None]:
    run = books.entries.read_run(chosen, below_id, CHUNK_ROWS)
    return [views.ENTRY.describe(entry) for entry in run.entries], run.next_id


@route("POST", "/billing/redeem", "any", idempotent=True)
def redeem(books: Books, request: ConsoleRequest) -> Answer:
    """Redeem a code. Failed tries are limited, as codes could be guessed by trying."""
    fields = request.fields
    code = fields.need_text("code")
    fields.done()
    account, tries = request.account, request.console.redeem_tries
    # Counted before it is made: else those who try many at once would all be let in.
    if wait_seconds := tries.take(account.id):
        message = f"You tried too many wrong codes. Try again in {-(-wait_seconds // 60)} minutes."
        raise too_many_tries(wait_seconds, message)
    entry = keys.redeem(books, account.name, code)
    tries.give_back(account.id)
    balance_nano = books.accounts.read(account.name).balance_nano
    return Answer(
        {"entry": views.ENTRY.describe(entry), **describe_amount("balance", balance_nano)}
    )


# ---- operators: the books of all accounts --------------------------------------------------------


async def _choose_entries(request: ConsoleRequest) -> EntryFilter:
    kind, days = _read_kind(request), request.query.span_ms()
    return EntryFilter(await request.run(request.find_named), kind, *days)


@async_route("GET", "/entries", "operator", READERS)
async def list_all_entries(request: ConsoleRequest) -> Answer:
    """List entries, the latest first.

    Times have no index. So those of past days are looked for in runs, between which other requests
    get the books' thread.
    """
    page, chosen = read_page(request, int), await _choose_entries(request)
    found: list[EntryView] = []
    below_id, limit = page.after_number, page.wanted
    while len(found) < page.wanted:
        run = await request.run(partial(_read_run, chosen, below_id, limit))
        found += run.entries
        if run.next_id is None:
            break
        below_id, limit = run.next_id, _RUN
    return page.answer("entries", found, lambda entry: (entry.id,), views.ENTRY.describe)


def _read_run(chosen: EntryFilter, below_id: int | None, limit: int, books: Books) -> EntryRun:
    return books.entries.read_run(chosen, below_id, limit)


@async_route("GET", "/entries.csv", "operator", READERS)
async def download_all_entries(request: ConsoleRequest) -> web.StreamResponse:
    chosen = await _choose_entries(request)
    return await stream_csv(request, "entries", views.ENTRY.names, partial(_read_chunk, chosen))


@route("GET", "/statement", "operator", READERS)
def show_statement(books: Books, request: ConsoleRequest) -> Answer:
    """Show the openings, movements and closings of all accounts, by name, with their total."""
    first, last, lines = _read_statement(books, request)
    page = read_page(request, str)
    after = page.after_text
    places = [one.account for one in lines]
    begin = 0 if after is None else 1 + (places.index(after) if after in places else len(places))
    totals = views.STATEMENT.describe(sum_statement(lines))
    return page.answer(
        "rows",
        lines[begin : begin + page.wanted],
        lambda line: (line.account,),
        views.STATEMENT.describe,
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
        return [views.STATEMENT.describe(one) for one in lines], None

    return await stream_csv(request, "statement", views.STATEMENT.names, read)


def _read_statement(books: Books, request: ConsoleRequest) -> tuple[int, int, list[StatementLine]]:
    """Read the days, by default the present month up to today, and what moved the balances."""
    first, last = request.query.days()
    last = books.clock() // DAY_MS if last is None else last
    if first is None:
        first = last - int(format_day(last)[-2:]) + 1
    if first > last:
        raise invalid_field("from", "'from' must not be after today.")
    request.find_named(books)
    return first, last, books.statements.read(first, last + 1, request.query.text("account"))
