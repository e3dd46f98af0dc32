"""The signed-in account's balance and its ledger entries."""

from __future__ import annotations

from functools import partial
from typing import Final, get_args

from aiohttp import web

from gateway.admin import views
from gateway.console.csv_stream import CHUNK_ROWS, Chunk, stream_csv
from gateway.console.paging import Listing, read_page
from gateway.console.state import Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger.records import EntryFilter, EntryKind, EntryView
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount
from gateway.times import DAY_MS

KINDS: Final[tuple[EntryKind, ...]] = get_args(EntryKind)
ENTRIES: Final[Listing[EntryView]] = Listing(
    "entries", lambda entry: (entry.id,), views.ENTRY.describe
)


def show_billing(books: Books, request: ConsoleRequest) -> Answer:
    """Show the balance and a page of entries, the latest first."""
    account = books.accounts.read(request.account.name)
    kind = _read_kind(request)
    page = read_page(request.query, (int,))
    run = books.entries.read_run(EntryFilter(account.id, kind), page.after_number, page.wanted)
    figures = {
        **describe_amount("balance", account.balance_nano),
        **describe_amount("held", account.held_nano),
        **describe_amount("available", account.balance_nano - account.held_nano),
        "count": books.entries.count(account.id, kind),
    }
    return ENTRIES.answer(request.http, page, run.entries, figures)


async def download_billing(request: ConsoleRequest) -> web.StreamResponse:
    first_day, last_day = request.query.days()
    chosen = EntryFilter(
        request.account.id,
        _read_kind(request),
        None if first_day is None else first_day * DAY_MS,
        None if last_day is None else (last_day + 1) * DAY_MS,
    )
    return await stream_csv(request, "billing", views.ENTRY.names, partial(_read_chunk, chosen))


def _read_kind(request: ConsoleRequest) -> EntryKind | None:
    return request.query.optional_choice("kind", KINDS)


def _read_chunk(chosen: EntryFilter, books: Books, below_id: int | None) -> Chunk[int]:
    run = books.entries.read_run(chosen, below_id, CHUNK_ROWS)
    return Chunk([views.ENTRY.describe(entry) for entry in run.entries], run.next_id)


ROUTES: Final = (
    Route("GET", "/console/api/billing", "any", in_books_thread(show_billing)),
    Route("GET", "/console/api/billing.csv", "any", download_billing),
)
