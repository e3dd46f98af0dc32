"""The signed-in account's balance and ledger entries, and top-up codes.

Operators make, list and void codes; everybody can redeem one.
"""

from __future__ import annotations

from functools import partial
from typing import get_args

from aiohttp import web

from gateway.admin import keys, views
from gateway.console.lists import CHUNK_ROWS, Json, Page, read_page, stream_csv
from gateway.console.refusals import too_many_tries
from gateway.console.routes import EVERY_TOKEN, SHOPS, Answer, ConsoleRequest, async_route, route
from gateway.ledger.records import CodeStatus, EntryFilter, EntryKind
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount


@route("GET", "/billing", "any")
def show_billing(books: Books, request: ConsoleRequest) -> Answer:
    """Show the balance and a page of entries, the latest first."""
    account = books.accounts.read(request.account.name)
    chosen = EntryFilter(account.id, _read_kind(request))
    figures = {
        **describe_amount("balance", account.balance_nano),
        **describe_amount("held", account.held_nano),
        **describe_amount("available", account.balance_nano - account.held_nano),
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


@route("GET", "/codes", "operator", EVERY_TOKEN)
def list_codes(books: Books, request: ConsoleRequest) -> Answer:
    query = request.query
    status = query.optional_choice("status", get_args(CodeStatus))
    page = read_page(request, str)
    now_ms = books.clock()
    count, found = books.codes.read_page(status, query.text("batch"), page.after_text, page.wanted)
    return page.answer(
        "codes",
        found,
        lambda code: (code.id,),
        lambda code: views.CODE.describe(code, now_ms),
        count=count,
    )


@route(
    "POST",
    "/codes",
    "operator",
    SHOPS,
    idempotent=True,
    shown_once="These codes were made already, as batch {batch}, and cannot be shown again. If they"
    " are lost, void the batch and make new codes.",
)
def make_codes(books: Books, request: ConsoleRequest) -> Answer:
    fields = request.fields
    amount_nano = fields.need_amount_nano("amount")
    count = fields.need_integer("count", 1, keys.MAX_CODES)
    expires_ms, note = fields.moment_ms("expires"), fields.text("note") or ""
    fields.done()
    made = keys.make_codes(books, amount_nano, count, expires_ms=expires_ms, note=note.strip())
    return Answer(views.NEW_CODES.describe(made), 201, kept={"batch": made.batch})


@route("POST", "/codes/void-batch", "operator", SHOPS)
def void_batch(books: Books, request: ConsoleRequest) -> Answer:
    fields = request.fields
    batch = fields.need_text("batch")
    fields.done()
    return Answer({"voided": books.codes.void_batch(batch)})


@route("POST", "/codes/{id}/void", "operator", SHOPS)
def void_code(books: Books, request: ConsoleRequest) -> Answer:
    request.fields.done()
    return Answer(views.CODE.describe(books.codes.void(request.segment()), books.clock()))
