"""Requests to models: usage, cost and outcome; never prompts or replies.

Holders see their own account's requests, operators those of all accounts.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from aiohttp import web

from gateway.admin import observations, views
from gateway.console.lists import CHUNK_ROWS, Json, read_page, stream_csv
from gateway.console.routes import Answer, ConsoleRequest, async_route, route
from gateway.ledger.alert_records import RefusedView
from gateway.ledger.call_records import ENDINGS, CallFilter, OutcomeFilter
from gateway.ledger.sql.books.books import Books
from gateway.times import DAY_MS

MAX_STATUS: Final = 599
"""The largest HTTP status there is."""
MAX_SECONDS: Final = 86_400
"""A day: no call takes longer."""
SLOW_MS: Final = 7 * DAY_MS
"""How far back slow calls are searched unless a first day is given."""
SLOW_CALLS: Final = 25_000
"""How many calls are looked at then, of the account or of all: each takes the books' thread a µs."""

LABELS: Final[dict[OutcomeFilter, str]] = {
    "failed": "any failure",
    **{outcome: ending.label for outcome, ending in ENDINGS.items()},
}


@route("GET", "/activity", "any")
def list_calls(books: Books, request: ConsoleRequest) -> Answer:
    """List the requests, the latest started first; or the slowest, on one page."""
    chosen = _read_filter(request, books)
    page = read_page(request, str)
    if _read_sort(request) == "slowest":
        calls = books.calls.read_slowest(chosen, page.limit)
    else:
        calls = books.calls.read_page(chosen, page.after_text, page.wanted)
    figures = {"count": books.calls.count(chosen), "outcomes": LABELS}
    return page.answer(
        "calls", calls, lambda call: (call.request_id,), views.CALL.describe, **figures
    )


@route("GET", "/activity/{id}", "any")
def show_call(books: Books, request: ConsoleRequest) -> Answer:
    """Show the whole receipt of a request, or its refusal."""
    account, currency = request.account, request.gateway.config.billing.currency
    own_id = None if account.operator else account.id
    found = observations.find_call(books, request.segment("id"), account_id=own_id)
    if isinstance(found, RefusedView):
        return Answer(observations.REFUSED.describe(found))
    return Answer(views.describe_call_detail(found, currency, for_operator=account.operator))


@async_route("GET", "/activity.csv", "any")
async def download_calls(request: ConsoleRequest) -> web.StreamResponse:
    chosen = await request.run(partial(_read_filter, request))
    return await stream_csv(request, "activity", views.CALL.names, partial(_read_chunk, chosen))


def _read_sort(request: ConsoleRequest) -> str:
    return request.query.choice("sort", ("latest", "slowest"), "latest")


def _read_filter(request: ConsoleRequest, books: Books) -> CallFilter:
    query = request.query
    since_ms, until_ms = query.span_ms()
    slower_than = query.integer("slower_than", 0, MAX_SECONDS, 0)
    is_slow = slower_than or _read_sort(request) == "slowest"
    account_id = request.find_named(books) if request.account.operator else request.account.id
    if is_slow and since_ms is None:  # no index knows how long calls took
        recent_ms = books.calls.find_recent_ms(account_id, SLOW_CALLS)
        since_ms = max(books.clock() - SLOW_MS, recent_ms)
    return CallFilter(
        account_id,
        request_id=query.text("request_id"),
        key_id=query.text("key"),
        model=query.text("model"),
        provider=query.text("provider"),
        outcome=query.optional_choice("outcome", tuple(LABELS)),
        status=query.integer("status", 0, MAX_STATUS, 0) or None,
        slower_than_ms=slower_than * 1000 or None,
        since_ms=since_ms,
        until_ms=until_ms,
    )


def _read_chunk(
    chosen: CallFilter, books: Books, below_id: str | None
) -> tuple[list[Json], str | None]:
    calls = books.calls.read_page(chosen, below_id, CHUNK_ROWS)
    after = calls[-1].request_id if len(calls) == CHUNK_ROWS else None
    return [views.CALL.describe(call) for call in calls], after
