"""The own balance and its movements."""

from __future__ import annotations

from functools import partial
from typing import Final, get_args

from aiohttp import web

from gateway.console.csv_stream import CHUNK_ROWS, Chunk, stream_csv
from gateway.console.paging import Listing, read_page
from gateway.console.state import Answer, Route, Visit, on_desk
from gateway.ledger.batch import EntryKind
from gateway.ledger.books import Books
from gateway.ledger.records import EntryFilter, EntryView
from gateway.times import DAY_MS
from gateway.views import describe_entry, money

KINDS: Final[tuple[EntryKind, ...]] = get_args(EntryKind)
COLUMNS: Final = (
    "id",
    "account",
    "kind",
    "amount",
    "amount_nano",
    "balance_after",
    "balance_after_nano",
    "request_id",
    "note",
    "created",
)

ENTRIES: Final[Listing[EntryView]] = Listing("entries", lambda entry: (entry.id,), describe_entry)


def show_billing(books: Books, visit: Visit) -> Answer:
    """The latest movements first."""
    account = books.account(visit.account.name)
    kind = _read_kind(visit)
    page = read_page(visit.query, (int,))
    run = books.entry_run(EntryFilter(account.id, kind), page.after_number, page.wanted)
    figures = {
        **money("balance", account.balance_nano),
        **money("held", account.held_nano),
        **money("available", account.balance_nano - account.held_nano),
        "count": books.count_entries(account.id, kind),
    }
    return ENTRIES.answer(visit.request, page, run.entries, figures)


async def download_billing(visit: Visit) -> web.StreamResponse:
    first_day, last_day = visit.query.days()
    chosen = EntryFilter(
        visit.account.id,
        _read_kind(visit),
        None if first_day is None else first_day * DAY_MS,
        None if last_day is None else (last_day + 1) * DAY_MS,
    )
    return await stream_csv(visit, "billing", COLUMNS, partial(_read_chunk, chosen))


def _read_kind(visit: Visit) -> EntryKind | None:
    return visit.query.optional_choice("kind", KINDS)


def _read_chunk(chosen: EntryFilter, books: Books, below_id: int | None) -> Chunk[int]:
    run = books.entry_run(chosen, below_id, CHUNK_ROWS)
    return Chunk([describe_entry(entry) for entry in run.entries], run.next_id)


ROUTES: Final = (
    Route("GET", "/console/api/billing", "any", on_desk(show_billing)),
    Route("GET", "/console/api/billing.csv", "any", download_billing),
)
