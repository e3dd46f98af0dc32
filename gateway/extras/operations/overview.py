"""The overview of the whole gateway, for operators: charges, what providers bill, the margin, what needs doing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from gateway.admin.fields import Fields, describe
from gateway.base.money import describe_amount
from gateway.base.times import DAY_MS, HOURS_PER_DAY, format_day
from gateway.extras.console.keys import SPENT_DAYS
from gateway.extras.console.lists import Json
from gateway.extras.console.overview import WEEK
from gateway.extras.console.routes import READERS, Answer, ConsoleRequest, route
from gateway.extras.observations.book import ObservationBook
from gateway.extras.observations.records import Latency, measure_latency
from gateway.extras.operations import health
from gateway.extras.operations.needs import list_needs
from gateway.extras.reports import records
from gateway.extras.reports.ranks import RankBook
from gateway.extras.reports.usage import UsageBook
from gateway.extras.reports.views import COSTS
from gateway.ledger.sql.books import Books

PERIODS: Final = {"today": 1, "7d": WEEK, "30d": SPENT_DAYS}
"""UTC days, with today, of the gateway's sums and of the list of refusals."""
TOP: Final = 5
"""The accounts and models that the gateway's overview names, so that it stays one page."""

CHARGED: Final = Fields[records.Usage]("requests", ("charged_nano", "cost_nano"))

Days = dict[str, tuple[records.Usage, records.ProviderCosts]]
Row = tuple[str, records.Usage, records.ProviderCosts]


@route("GET", "/gateway", "operator", READERS)
def show_gateway(books: Books, request: ConsoleRequest) -> Answer:
    """Show the usage, balances and costs of all accounts together, and what needs doing."""
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
    # To sum the tokens of thousands of accounts would take longer than to read these few one by one.
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
