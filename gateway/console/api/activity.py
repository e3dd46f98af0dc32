"""The signed-in account's requests to models: usage, cost and outcome; never prompts or replies."""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import web

from gateway.console.csv_stream import CHUNK_ROWS, Chunk, stream_csv
from gateway.console.paging import Listing, read_page
from gateway.console.state import Answer, ConsoleRequest, Route, in_books_thread
from gateway.console.views import describe_call
from gateway.ledger import Books, CallFilter, CallView

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


def list_calls(books: Books, request: ConsoleRequest) -> Answer:
    """List the requests, the latest started first."""
    chosen = _read_filter(request)
    page = read_page(request.query, (str,))
    calls = books.calls.read_page(chosen, page.after_text, page.wanted)
    return CALLS.answer(request.http, page, calls, {"count": books.calls.count(chosen)})


async def download_calls(request: ConsoleRequest) -> web.StreamResponse:
    return await stream_csv(
        request, "activity", COLUMNS, partial(_read_chunk, _read_filter(request))
    )


def _read_filter(request: ConsoleRequest) -> CallFilter:
    query = request.query
    first_day, last_day = query.days()
    return CallFilter(
        request.account.id,
        request_id=query.text("request_id"),
        key_id=query.text("key"),
        model=query.text("model"),
        first_day=first_day,
        last_day=last_day,
    )


def _read_chunk(chosen: CallFilter, books: Books, below_id: str | None) -> Chunk[str]:
    calls = books.calls.read_page(chosen, below_id, CHUNK_ROWS)
    after = calls[-1].request_id if len(calls) == CHUNK_ROWS else None
    return Chunk([describe_call(call) for call in calls], after)


ROUTES: Final = (
    Route("GET", "/console/api/activity", "any", in_books_thread(list_calls)),
    Route("GET", "/console/api/activity.csv", "any", download_calls),
)
