"""Calls of whoever is signed in: what each used, cost and became. Never what was said in it."""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import web

from gateway.console.csv_stream import CHUNK_ROWS, Chunk, stream_csv
from gateway.console.paging import Listing, read_page
from gateway.console.state import Answer, Route, Visit, on_desk
from gateway.console.views import describe_call
from gateway.ledger.books import Books
from gateway.ledger.records import CallFilter, CallView

COLUMNS: Final = (
    "request_id",
    "started",
    "ended",
    "model",
    "provider",
    "key",
    "key_name",
    "key_display",
    "state",
    "outcome",
    "status",
    "stream",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "cost",
    "cost_nano",
    "estimated",
    "first_byte_ms",
    "total_ms",
)

CALLS: Final[Listing[CallView]] = Listing("calls", lambda call: (call.request_id,), describe_call)


def list_calls(books: Books, visit: Visit) -> Answer:
    """The latest begun first."""
    chosen = _read_filter(visit)
    page = read_page(visit.query, (str,))
    calls = books.calls(chosen, page.after_text, page.wanted)
    return CALLS.answer(visit.request, page, calls, {"count": books.count_calls(chosen)})


async def download_calls(visit: Visit) -> web.StreamResponse:
    return await stream_csv(visit, "activity", COLUMNS, partial(_read_chunk, _read_filter(visit)))


def _read_filter(visit: Visit) -> CallFilter:
    query = visit.query
    first_day, last_day = query.days()
    return CallFilter(
        visit.account.id,
        request_id=query.text("request_id"),
        key_id=query.text("key"),
        model=query.text("model"),
        first_day=first_day,
        last_day=last_day,
    )


def _read_chunk(chosen: CallFilter, books: Books, below_id: str | None) -> Chunk[str]:
    calls = books.calls(chosen, below_id, CHUNK_ROWS)
    after = calls[-1].request_id if len(calls) == CHUNK_ROWS else None
    return Chunk([describe_call(call) for call in calls], after)


ROUTES: Final = (
    Route("GET", "/console/api/activity", "any", on_desk(list_calls)),
    Route("GET", "/console/api/activity.csv", "any", download_calls),
)
