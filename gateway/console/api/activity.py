"""The overview, and requests to models: usage, cost and outcome; never prompts or replies.

Holders see their own account's requests, operators those of all accounts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from aiohttp import web

from gateway.admin import observations, views
from gateway.admin.fields import describe
from gateway.config.records import Billing
from gateway.console.api.keys import SPENT_DAYS
from gateway.console.fields import invalid_field
from gateway.console.lists import CHUNK_ROWS, Json, read_page, stream_csv
from gateway.console.routes import Answer, ConsoleRequest, async_route, route
from gateway.ledger.call_records import (
    ENDINGS,
    CallFilter,
    KeyLabel,
    OutcomeFilter,
    OverviewView,
    Usage,
    sum_usage,
)
from gateway.ledger.records import AccountView, NotFound
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount, format_amount
from gateway.times import DAY_MS, format_day, format_moment

WEEK: Final = 7
"""Days over which spending is averaged, so that weekends count."""
CALLS: Final = 10
"""The latest requests shown on the overview: a list that needs no scrolling."""
SOON_MS: Final = 7 * DAY_MS
"""A notice is shown for keys that expire within this time: a week, to replace them in."""

LINKS_ONLY: Final = (
    "You have no password yet, so you need a new sign-in link each time. Set one under Settings."
)
SUSPENDED: Final = (
    "This account is suspended: its calls are refused. Ask the operator of this gateway to resume"
    " it."
)
EMPTY: Final = (
    "The balance is used up: calls are refused until it is positive. Redeem a code under Billing,"
    " or ask the operator of this gateway for credit."
)


@route("GET", "/overview", "any")
def show_overview(books: Books, request: ConsoleRequest) -> Answer:
    today = books.clock() // DAY_MS
    # One snapshot, so that the figures of the page add up.
    with books.snapshot():
        account = books.accounts.read(request.account.name)
        view = books.usage.read_overview(
            account.id, first_day=today - SPENT_DAYS + 1, soon_ms=SOON_MS
        )
        calls = books.calls.read_page(CallFilter(account.id), None, CALLS)
        needs_link = _needs_link(books, request)
        refused = books.observations.read_refusals(account.id, today * DAY_MS)
        low_nano = observations.find_low_balance_nano(
            books, account.id, request.gateway.config.billing
        )
    available_nano = account.balance_nano - account.held_nano
    spent_7d_nano = _sum_days(view, today, WEEK)
    billing = replace(request.gateway.config.billing, low_balance_nano=low_nano)
    notices = _find_notices(account, view, billing, needs_link=needs_link)
    body = {
        **describe_amount("balance", account.balance_nano),
        **describe_amount("held", account.held_nano),
        **describe_amount("available", available_nano),
        "currency": billing.currency,
        **describe_amount("spent_today", _sum_days(view, today, 1)),
        **describe_amount("spent_7d", spent_7d_nano),
        **describe_amount("spent_30d", _sum_days(view, today, SPENT_DAYS)),
        "days_left": count_days_left(account.balance_nano, available_nano, spent_7d_nano),
        "days": [
            {"day": format_day(day), **views.USAGE.describe(view.days.get(day, Usage()))}
            for day in range(today - SPENT_DAYS + 1, today + 1)
        ],
        "refused_today": [describe(one, "code", "model", "count", "last_ms") for one in refused],
        "calls": [views.CALL.describe(call) for call in calls],
        "keys": view.active_keys,
        "first_key": view.has_key,
        "first_call": view.has_call,
        "notices": [{"code": code, "message": message} for code, message in notices],
    }
    return Answer(body)


def count_days_left(balance_nano: int, available_nano: int, spent_week_nano: int) -> int | None:
    """Return how many whole days the available balance lasts at the rate of the last week.

    None if nothing was spent in that week or the balance is not positive.
    """
    if spent_week_nano <= 0 or balance_nano <= 0:
        return None
    return max(available_nano, 0) * WEEK // spent_week_nano


def _sum_days(view: OverviewView, today: int, count: int) -> int:
    return sum_usage(
        usage for day, usage in view.days.items() if today - count < day <= today
    ).cost_nano


def _needs_link(books: Books, request: ConsoleRequest) -> bool:
    has_password = books.signins.find_password_hash(request.account.name) is not None
    return not has_password and not request.own_session.by_proxy


def _find_notices(
    account: AccountView, view: OverviewView, billing: Billing, *, needs_link: bool
) -> Iterator[tuple[str, str]]:
    """Yield notices as a code and a sentence that says what to do, the most urgent first."""
    low_nano = billing.low_balance_nano
    if account.suspended:
        yield "suspended", SUSPENDED
    if account.balance_nano <= 0:
        yield "balance_empty", EMPTY
    elif low_nano is not None and account.balance_nano < low_nano:
        low = f"{format_amount(low_nano)} {billing.currency}"
        yield (
            "balance_low",
            f"The balance is below {low}. Top it up before calls are refused.",
        )
    if view.expiring:
        yield "key_expiring", _describe_expiring(view.expiring)
    if needs_link:
        yield "no_password", LINKS_ONLY


def _describe_expiring(expiring: Sequence[tuple[KeyLabel, int]]) -> str:
    """Describe the first key to expire, and how many there are; the list of keys shows the others."""
    key, expires_ms = expiring[0]
    name = f"'{key.name}' ({key.display})" if key.name else key.display
    moment = f"on {format_moment(expires_ms)} UTC"
    advice = "Set a later expiry or make a new key before its requests are refused."
    if len(expiring) == 1:
        return f"The key {name} expires {moment}. {advice}"
    return f"{len(expiring)} keys expire within 7 days, first {name} {moment}. {advice}"


MAX_STATUS: Final = 599
"""The largest HTTP status there is."""

LABELS: Final[dict[OutcomeFilter, str]] = {
    "failed": "any failure",
    **{outcome: ending.label for outcome, ending in ENDINGS.items()},
}


@route("GET", "/activity", "any")
def list_calls(books: Books, request: ConsoleRequest) -> Answer:
    """List the requests, the latest started first."""
    chosen = _read_filter(request, books)
    page = read_page(request, str)
    calls = books.calls.read_page(chosen, page.after_text, page.wanted)
    figures = {"count": books.calls.count(chosen), "outcomes": LABELS}
    return page.answer(
        "calls", calls, lambda call: (call.request_id,), views.CALL.describe, **figures
    )


@route("GET", "/activity/{id}", "any")
def show_call(books: Books, request: ConsoleRequest) -> Answer:
    """Show the whole receipt of a request."""
    account, currency = request.account, request.gateway.config.billing.currency
    detail = books.calls.read_detail(
        request.segment("id"), account_id=None if account.operator else account.id
    )
    return Answer(views.describe_call_detail(detail, currency, for_operator=account.operator))


@async_route("GET", "/activity.csv", "any")
async def download_calls(request: ConsoleRequest) -> web.StreamResponse:
    chosen = await request.run(partial(_read_filter, request))
    return await stream_csv(request, "activity", views.CALL.names, partial(_read_chunk, chosen))


def _read_filter(request: ConsoleRequest, books: Books) -> CallFilter:
    query = request.query
    since_ms, until_ms = query.span_ms()
    return CallFilter(
        _read_account(request, books),
        request_id=query.text("request_id"),
        key_id=query.text("key"),
        model=query.text("model"),
        provider=query.text("provider"),
        outcome=query.optional_choice("outcome", tuple(LABELS)),
        status=query.integer("status", 0, MAX_STATUS, 0) or None,
        since_ms=since_ms,
        until_ms=until_ms,
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


def _read_chunk(
    chosen: CallFilter, books: Books, below_id: str | None
) -> tuple[list[Json], str | None]:
    calls = books.calls.read_page(chosen, below_id, CHUNK_ROWS)
    after = calls[-1].request_id if len(calls) == CHUNK_ROWS else None
    return [views.CALL.describe(call) for call in calls], after
