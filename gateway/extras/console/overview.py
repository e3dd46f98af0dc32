"""The overview of an account and, for operators, of the whole gateway.

Operators also see charges, the providers' costs, and the margin.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from gateway.admin import views
from gateway.admin.fields import Fields, describe
from gateway.base.money import describe_amount, format_amount
from gateway.base.times import DAY_MS, HOURS_PER_DAY, format_day, format_moment
from gateway.config.records import Billing
from gateway.extras.console.additions import find_additions, find_low_balance_nano
from gateway.extras.console.errors import phrase
from gateway.extras.console.keys import SPENT_DAYS
from gateway.extras.console.lists import Json
from gateway.extras.console.routes import READERS, Answer, ConsoleRequest, route
from gateway.extras.observations.book import ObservationBook
from gateway.extras.observations.records import Latency, measure_latency
from gateway.extras.operations import health
from gateway.extras.operations.needs import list_needs
from gateway.extras.reports import records
from gateway.extras.reports.calls import CallBook
from gateway.extras.reports.ranks import RankBook
from gateway.extras.reports.usage import UsageBook
from gateway.extras.reports.views import CALL, COSTS, USAGE
from gateway.extras.signins.people import PeopleBook
from gateway.ledger.call_records import KeyLabel
from gateway.ledger.records import AccountView, count_days_left
from gateway.ledger.sql.books import Books

WEEK: Final = 7
"""Days over which spending is averaged, so that weekends count."""
CALLS: Final = 5
"""The latest requests shown on the overview: a list that needs no scrolling."""
SOON_MS: Final = 7 * DAY_MS
"""A notice is shown for keys that expire within this time: a week, to replace them in."""

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
    """List what was refused today, with the keys of those requests that are kept one by one."""
    book, models = ObservationBook(books), request.gateway.config.models
    keys: dict[tuple[str, str], dict[str, Json]] = defaultdict(dict)
    for one in book.sum_refused(account_id, today * DAY_MS):
        # Names that are not configured are counted together.
        place = one.code, one.model if one.model in models else ""
        keys[place][one.key.id] = views.KEY_LABEL.describe(one.key)
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


PERIODS: Final = {"today": 1, "7d": WEEK, "30d": SPENT_DAYS}
"""UTC days, with today, of the gateway's sums and of the list of refusals."""
TOP: Final = 5
"""The accounts and models that the gateway's overview names."""

CHARGED: Final = Fields[records.Usage]("requests", ("charged_nano", "cost_nano"))

Days = dict[str, tuple[records.Usage, records.ProviderCosts]]
Row = tuple[str, records.Usage, records.ProviderCosts]


@route("GET", "/gateway", "operator", READERS)
def show_gateway(books: Books, request: ConsoleRequest) -> Answer:
    """Show what all accounts did, have, and cost."""
    today = books.clock() // DAY_MS
    since_ms = (today - SPENT_DAYS + 1) * DAY_MS
    with books.snapshot():
        view = UsageBook(books).read_gateway(today - SPENT_DAYS + 1)
        days = {
            day: (usage, costs)
            for day, usage, costs in UsageBook(books).sum_with_costs("day", since_ms=since_ms)
        }
        accounts = _list_top(books, range(today - SPENT_DAYS + 1, today + 1))
        models = UsageBook(books).sum_with_costs("model", since_ms=since_ms)
        latencies = {name: _measure_latency(books, today, count) for name, count in PERIODS.items()}
        audit = request.console.process.last_audit
        report = None if audit is None else audit.report
        overdrawn, uncosted = RankBook(books).find_overdrawn(), _find_uncosted(models)
        needs = list(
            list_needs(books, request.gateway, report, overdrawn=overdrawn, uncosted=uncosted)
        )
    models.sort(key=lambda row: (-row[1].cost_nano, row[0]))
    body = {
        "currency": request.gateway.config.billing.currency,
        **describe(view, "owed_nano", "overdrawn_nano"),
        "periods": {
            name: {
                **_sum_period(view, days, range(today - count + 1, today + 1)),
                "latency": health.LATENCY.describe(latencies[name]),
            }
            for name, count in PERIODS.items()
        },
        "days": _list_days(view, days, range(today - 2 * WEEK, today + 1)),
        "needs": [describe(one, "code", "message", "names") for one in needs],
        "accounts": accounts,
        "models": [{"model": name, **CHARGED.describe(usage)} for name, usage, _ in models[:TOP]],
    }
    return Answer(body)


def _measure_latency(books: Books, today: int, count: int) -> Latency:
    """Measure the replies of the latest days."""
    hours = (today - count + 1) * HOURS_PER_DAY, (today + 1) * HOURS_PER_DAY
    return measure_latency(ObservationBook(books).read_latencies("day", *hours))


def _list_days(view: records.GatewayView, days: Days, period: range) -> list[Json]:
    """List the days of two weeks, and today, with the sum of all balances at their end."""
    usages = {day: days[name][0] for day in period if (name := format_day(day)) in days}
    charged_nano = {day: usage.cost_nano for day, usage in usages.items()}
    balances_nano = view.find_balances(charged_nano, period)
    return [
        {
            "day": format_day(day),
            **CHARGED.describe(usages.get(day, records.Usage())),
            "failed": view.failed.get(day, 0),
            **describe_amount("balances", balances_nano[day]),
        }
        for day in period
    ]


def _find_uncosted(models: Sequence[Row]) -> list[str]:
    """Return the models with calls whose cost is unknown, if that of others is known."""
    unknown = [name for name, usage, costs in models if costs.known < usage.requests]
    return unknown if any(costs.known for *_, costs in models) else []


def _list_top(books: Books, days: range) -> list[Json]:
    """List the accounts that spent most, and what they spent in as many days before."""
    # Sums of tokens of thousands of accounts would take longer than these few by themselves.
    read = partial(UsageBook(books).sum_by, "account")
    since_ms, before_ms = days.start * DAY_MS, (days.start - len(days)) * DAY_MS
    rows: list[Json] = []
    for name in RankBook(books).find_top(days.start, TOP):
        before = read(account=name, since_ms=before_ms, until_ms=since_ms)
        before_nano = sum(usage.cost_nano for _, usage in before)
        for _, usage in read(account=name, since_ms=since_ms, until_ms=None):
            more = describe_amount("charged_before", before_nano)
            rows.append({"account": name, **CHARGED.describe(usage), **more})
    return rows


def _sum_period(view: records.GatewayView, days: Days, period: range) -> dict[str, object]:
    found = [days[name] for day in period if (name := format_day(day)) in days]
    usage, costs = (
        records.sum_usage(one for one, _ in found),
        records.sum_costs(one for _, one in found),
    )
    return {
        "requests": usage.requests,
        "failed": sum(view.failed.get(day, 0) for day in period),
        **describe_amount("charged", usage.cost_nano),
        **describe_amount("credited", sum(view.credited_nano.get(day, 0) for day in period)),
        **COSTS.describe(costs),
    }
