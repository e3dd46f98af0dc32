"""The overview of an account."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from gateway.admin.fields import describe
from gateway.base.money import describe_amount, format_amount
from gateway.base.times import DAY_MS, format_day, format_moment
from gateway.config.records import Billing
from gateway.extras.console.additions import find_additions, find_low_balance_nano
from gateway.extras.console.errors import phrase
from gateway.extras.console.keys import SPENT_DAYS
from gateway.extras.console.lists import Json
from gateway.extras.console.routes import Answer, ConsoleRequest, route
from gateway.extras.observations.book import ObservationBook
from gateway.extras.observations.describing import KEY_LABEL
from gateway.extras.observations.records import KeyLabel
from gateway.extras.reports import records
from gateway.extras.reports.calls import CallBook
from gateway.extras.reports.standings import count_days_left
from gateway.extras.reports.usage import UsageBook
from gateway.extras.reports.views import CALL, USAGE
from gateway.extras.signins.people import PeopleBook
from gateway.ledger.records import AccountView
from gateway.ledger.sql.books import Books

WEEK: Final = 7
"""Days over which spending is averaged, so that weekends count."""
CALLS: Final = 5
"""The latest requests shown on the overview: a list that needs no scrolling."""
SOON_MS: Final = 7 * DAY_MS
"""A notice is shown for keys that expire within this time: a week to replace them."""

LINKS_ONLY: Final = "You have no password yet, so you need a new sign-in link each time."
SUSPENDED: Final = (
    "This account is suspended: its calls are refused. Ask the operator of this gateway to resume"
    " it."
)
EMPTY: Final = "The balance is used up: calls are refused until it is positive."
ASK: Final = "ask the operator of this gateway for credit"


@route("GET", "/overview", "any")
def show_overview(books: Books, request: ConsoleRequest) -> Answer:
    today, billing = books.clock() // DAY_MS, request.gateway.config.billing
    # One snapshot, so that the figures of the page add up.
    with books.snapshot():
        account = books.accounts.read(request.account.name)
        view = UsageBook(books).read_overview(
            account.id, first_day=today - SPENT_DAYS + 1, soon_ms=SOON_MS
        )
        calls = CallBook(books).read_page(records.CallFilter(account.id), None, CALLS)
        session = request.own_session
        needs_link = not session.by_proxy and PeopleBook(books).find_hash(session.signin) is None
        refused = _list_refused(books, request, account.id, today)
        low_nano = find_low_balance_nano(books, account.id, billing)
    spent_7d_nano, nothing = _sum_days(view, today, WEEK), records.Usage()
    billing = replace(billing, low_balance_nano=low_nano)
    notices = _find_notices(account, view, billing, needs_link=needs_link)
    body = {
        **describe(account, "balance_nano", "held_nano", "available_nano"),
        "currency": billing.currency,
        **describe_amount("spent_today", _sum_days(view, today, 1)),
        **describe_amount("spent_7d", spent_7d_nano),
        **describe_amount("spent_30d", _sum_days(view, today, SPENT_DAYS)),
        "days_left": count_days_left(account.balance_nano, account.available_nano, spent_7d_nano),
        "days": [
            {"day": format_day(day), **USAGE.describe(view.days.get(day, nothing))}
            for day in range(today - SPENT_DAYS + 1, today + 1)
        ],
        "refused_today": refused,
        "calls": [CALL.describe(call) for call in calls],
        "keys": view.active_keys,
        "first_key": view.has_key,
        "first_call": view.has_call,
        "notices": [{"code": code, "message": message} for code, message in notices],
    }
    return Answer(body)


def _list_refused(books: Books, request: ConsoleRequest, account_id: int, today: int) -> list[Json]:
    """List today's refusals, with the keys of those requests that are stored one by one."""
    book, models = ObservationBook(books), request.gateway.config.models
    keys: dict[tuple[str, str], dict[str, Json]] = defaultdict(dict)
    for one in book.sum_refused(account_id, today * DAY_MS):
        # Names that are not configured are counted together.
        place = one.code, one.model if one.model in models else ""
        keys[place][one.key.id] = KEY_LABEL.describe(one.key)
    return [
        {
            **describe(one, "code", "model", "count", "last_ms", "last_request_id"),
            "keys": list(keys[one.code, one.model].values()),
        }
        for one in book.read_refusals(account_id, today * DAY_MS)
    ]


def _sum_days(view: records.OverviewView, today: int, count: int) -> int:
    return sum(one.cost_nano for day, one in view.days.items() if today - count < day <= today)


def _find_notices(
    account: AccountView, view: records.OverviewView, billing: Billing, *, needs_link: bool
) -> Iterator[tuple[str, str]]:
    """Yield notices as a code and a sentence that says what to do, the most urgent first."""
    low_nano = billing.low_balance_nano
    if account.suspended:
        yield "suspended", SUSPENDED
    if account.balance_nano <= 0:
        ways = [way for one in find_additions() for way in one.credit.values()]
        yield "balance_empty", f"{EMPTY} {phrase(', or '.join([*ways, ASK]))}"
    elif low_nano is not None and account.balance_nano < low_nano:
        low = f"{format_amount(low_nano)} {billing.currency}"
        yield ("balance_low", f"The balance is below {low}. Top it up before calls are refused.")
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
