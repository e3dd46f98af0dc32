"""Requests to models: usage, cost and outcome; never prompts or replies.

Holders see their own account's, operators those of all accounts.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import web

from gateway.admin import views
from gateway.console.csv_stream import CHUNK_ROWS, Chunk, stream_csv
from gateway.console.paging import Listing, read_page
from gateway.console.refusals import invalid_field
from gateway.console.state import Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger.call_records import ENDINGS, CallFilter, CallView, OutcomeFilter
from gateway.ledger.records import NotFound
from gateway.ledger.sql.books.books import Books
from gateway.times import DAY_MS

MAX_STATUS: Final = 599
"""The largest HTTP status there is."""

CALLS: Final[Listing[CallView]] = Listing(
    "calls", lambda call: (call.request_id,), views.CALL.describe
)


LABELS: Final[dict[OutcomeFilter, str]] = {
    "failed": "any failure",
    **{outcome: ending.label for outcome, ending in ENDINGS.items()},
}


def list_calls(books: Books, request: ConsoleRequest) -> Answer:
    """List the requests, the latest started first."""
    chosen = _read_filter(request, books)
    page = read_page(request.query, (str,))
    calls = books.calls.read_page(chosen, page.after_text, page.wanted)
    figures = {"count": books.calls.count(chosen), "outcomes": LABELS}
    return CALLS.answer(request.http, page, calls, figures)


def show_call(books: Books, request: ConsoleRequest) -> Answer:
    """Show the whole receipt of a request."""
    account, currency = request.account, request.gateway.config.billing.currency
    detail = books.calls.read_detail(
        request.segment("id"), account_id=None if account.operator else account.id
    )
    return Answer(views.describe_call_detail(detail, currency, for_operator=account.operator))


async def download_calls(request: ConsoleRequest) -> web.StreamResponse:
    chosen = await request.run(partial(_read_filter, request))
    return await stream_csv(request, "activity", views.CALL.names, partial(_read_chunk, chosen))


def _read_filter(request: ConsoleRequest, books: Books) -> CallFilter:
    query = request.query
    first_day, last_day = query.days()
    return CallFilter(
        _read_account(request, books),
        request_id=query.text("request_id"),
        key_id=query.text("key"),
        model=query.text("model"),
        provider=query.text("provider"),
        outcome=query.optional_choice("outcome", tuple(LABELS)),
        status=query.integer("status", 0, MAX_STATUS, 0) or None,
        since_ms=None if first_day is None else first_day * DAY_MS,
        until_ms=None if last_day is None else (last_day + 1) * DAY_MS,
    )


def _read_account(request: ConsoleRequest, books: Books) -> int | None:
    """Return the account whose calls are listed; None for all, which operators alone see."""
    if not request.account.operator:
        return request.account.id
    name = request.query.text("account")
    try:
        return None if name is None else books.accounts.find_id(name)
    except NotFound as error:
        raise invalid_field("account", f"There is no account '{name}'.") from error


def _read_chunk(chosen: CallFilter, books: Books, below_id: str | None) -> Chunk[str]:
    calls = books.calls.read_page(chosen, below_id, CHUNK_ROWS)
    after = calls[-1].request_id if len(calls) == CHUNK_ROWS else None
    return Chunk([views.CALL.describe(call) for call in calls], after)


ROUTES: Final = (
    Route("GET", "/console/api/activity", "any", in_books_thread(list_calls)),
    Route("GET", "/console/api/activity.csv", "any", download_calls),
    Route("GET", "/console/api/activity/{id}", "any", in_books_thread(show_call)),
)
