"""Lists of requests to models, without prompts and replies.

Holders see those of their own account, operators of all accounts or of one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Final

from aiohttp import web

from gateway.base.ids import find_first_id
from gateway.base.times import DAY_MS, format_iso
from gateway.extras.console.lists import CHUNK_ROWS, Json, read_page, stream_csv
from gateway.extras.console.routes import Answer, ConsoleRequest, async_route, route
from gateway.extras.observations.describing import REFUSED
from gateway.extras.observations.records import RefusedView
from gateway.extras.receipts.book import ReceiptBook, describe_call_detail
from gateway.extras.reports.calls import CallBook
from gateway.extras.reports.records import CallFilter
from gateway.extras.reports.views import CALL, OUTCOMES
from gateway.ledger.sql.books import Books

MAX_STATUS: Final = 599
"""The largest HTTP status there is."""
MAX_SECONDS: Final = 86_400
"""A day: no call takes longer."""
SLOW_MS: Final = 7 * DAY_MS
"""How far back slow calls are searched if no first day is given: a week, because a search of all calls would
take long."""
SLOW_CALLS: Final = 25_000
"""The most calls that such a search reads for a page: each takes the books' thread a µs.

No index has the durations of calls.
"""


@route("GET", "/activity", "any")
def list_calls(books: Books, request: ConsoleRequest) -> Answer:
    """List the requests, the latest started first, or the slowest first."""
    page = read_page(request, str)
    chosen, start_ms = _read_part(books, request, page.after_text)
    if _read_sort(request) == "slowest":
        calls = CallBook(books).read_slowest(chosen, page.after_text, page.limit)
    else:
        calls = CallBook(books).read_page(chosen, page.after_text, page.wanted)
    is_part = start_ms is not None or (_is_slow(request) and page.after is not None)
    figures = {
        "count": None if is_part else CallBook(books).count(chosen),
        "outcomes": OUTCOMES,
        "looked_since": format_iso(start_ms),
    }
    if start_ms is not None:
        page = replace(page, rest=(find_first_id(start_ms),))
    return page.answer("calls", calls, CALL.describe, attrgetter("request_id"), **figures)


@route("GET", "/activity/{id}", "any")
def show_call(books: Books, request: ConsoleRequest) -> Answer:
    """Show the whole receipt of a request, or its refusal."""
    account, currency = request.account, request.gateway.config.billing.currency
    own_id = None if account.operator else account.id
    found = ReceiptBook(books).find(request.segment("id"), account_id=own_id)
    if isinstance(found, RefusedView):
        return Answer(REFUSED.describe(found))
    return Answer(describe_call_detail(found, currency, for_operator=account.operator))


@async_route("GET", "/activity.csv", "any")
async def download_calls(request: ConsoleRequest) -> web.StreamResponse:
    return await stream_csv(request, "activity", CALL.names, partial(_read_chunk, request))


def _is_slow(request: ConsoleRequest) -> bool:
    return request.query.integer("slower_than", 0, MAX_SECONDS, 0) > 0 or (
        _read_sort(request) == "slowest"
    )


def _read_sort(request: ConsoleRequest) -> str:
    return request.query.choice("sort", ("latest", "slowest"), "latest")


def _read_part(
    books: Books, request: ConsoleRequest, below_id: str | None
) -> tuple[CallFilter, int | None]:
    """Return the filter and, if only the latest of its calls are searched, the time at which those begin."""
    chosen = _read_filter(books, request)
    if not _is_slow(request):
        return chosen, None
    if chosen.since_ms is None:
        chosen = replace(chosen, since_ms=books.clock() - SLOW_MS)
    start_ms = CallBook(books).find_start_ms(chosen, below_id, SLOW_CALLS)
    return chosen if start_ms is None else replace(chosen, since_ms=start_ms), start_ms


def _read_filter(books: Books, request: ConsoleRequest) -> CallFilter:
    query = request.query
    since_ms, until_ms = query.span_ms()
    slower_than = query.integer("slower_than", 0, MAX_SECONDS, 0)
    account_id = request.find_named(books) if request.account.operator else request.account.id
    return CallFilter(
        account_id,
        request_id=query.text("request_id"),
        key_id=query.text("key"),
        model=query.text("model"),
        provider=query.text("provider"),
        outcome=query.optional_choice("outcome", tuple(OUTCOMES)),
        status=query.integer("status", 0, MAX_STATUS, 0) or None,
        slower_than_ms=slower_than * 1000 or None,
        since_ms=since_ms,
        until_ms=until_ms,
    )


def _read_chunk(
    request: ConsoleRequest, books: Books, below_id: str | None
) -> tuple[list[Json], str | None]:
    chosen, start_ms = _read_part(books, request, below_id)
    calls = CallBook(books).read_page(chosen, below_id, CHUNK_ROWS)
    after = None if start_ms is None else find_first_id(start_ms)
    if len(calls) == CHUNK_ROWS:
        after = calls[-1].request_id
    return [CALL.describe(call) for call in calls], after
