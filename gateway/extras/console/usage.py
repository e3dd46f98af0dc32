"""Usage by day, hour, model or key; the models and their prices.

Holders see usage of their own account, operators of all accounts or of one. Operators also see models
that are off, and all routes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final, Literal, get_args

from aiohttp import web

from gateway.admin.fields import describe
from gateway.api.state import Gateway
from gateway.base.money import describe_amount, describe_price
from gateway.base.prices import describe_rules
from gateway.base.times import DAY_MS, format_day, format_hour
from gateway.config.records import Model
from gateway.extras.console.errors import ConsoleError, invalid_field
from gateway.extras.console.fields import Query
from gateway.extras.console.lists import Json, stream_csv
from gateway.extras.console.routes import (
    EVERY_TOKEN,
    READERS,
    Answer,
    ConsoleRequest,
    async_route,
    route,
)
from gateway.extras.observations.describing import KEY_LABEL
from gateway.extras.reports.records import (
    ChartUnit,
    Usage,
    UsageFilter,
    UsageGroup,
    UsageReport,
    sum_usage,
)
from gateway.extras.reports.usage import UsageBook
from gateway.extras.reports.views import USAGE
from gateway.ledger.sql.books import Books

Group = Literal["day", "hour", "model", "key", "account", "provider"]
OWN_GROUPS: Final[tuple[Group, ...]] = ("day", "hour", "model", "key")
MAX_DAYS: Final = 366
"""Days of a report: a leap year."""
MAX_DAYS_BY_HOUR: Final = 31
"""Days of a report by the hour: a chart has no room for more points."""
DEFAULT_DAYS: Final = 30
"""Days of a report if the request has no first day: about a month, as on bills."""
FIRST_DAY: Final = -719_162
"""1 January of the year 1, the first date that Python can represent."""


@route("GET", "/usage", "any")
@route("GET", "/accounts/{id}/usage", "operator", EVERY_TOKEN)
def show_usage(books: Books, request: ConsoleRequest) -> Answer:
    return _show(books, request, request.find_account(books).id, OWN_GROUPS)


@route("GET", "/gateway/usage", "operator", READERS)
def show_gateway_usage(books: Books, request: ConsoleRequest) -> Answer:
    return _show(books, request, request.find_named(books), get_args(Group))


def _show(
    books: Books, request: ConsoleRequest, account_id: int | None, groups: Sequence[Group]
) -> Answer:
    by = request.query.choice("by", groups, "day")
    chosen, report, rows = _read_report(books, request, account_id, by)
    unit = _find_unit(by)
    body = {
        "from": format_day(chosen.first_day),
        "to": format_day(chosen.last_day),
        "by": by,
        "currency": request.gateway.config.billing.currency,
        "rows": rows,
        "totals": USAGE.describe(sum_usage(point.usage for point in report.points)),
        "chart": {"unit": unit, "points": _describe_points(report, unit)},
        "models": list(report.models),
    }
    return Answer(body)


@async_route("GET", "/usage.csv", "any")
async def download_usage(request: ConsoleRequest) -> web.StreamResponse:
    return await _stream(request, lambda _: request.account.id, OWN_GROUPS)


@async_route("GET", "/gateway/usage.csv", "operator", READERS)
async def download_gateway_usage(request: ConsoleRequest) -> web.StreamResponse:
    return await _stream(request, request.find_named, get_args(Group))


async def _stream(
    request: ConsoleRequest, find_id: Callable[[Books], int | None], groups: Sequence[Group]
) -> web.StreamResponse:
    by = request.query.choice("by", groups, "day")

    def read(books: Books, _: None) -> tuple[list[Json], None]:
        _chosen, _report, rows = _read_report(books, request, find_id(books), by)
        return rows, None

    names = ("key", "key_name") if by == "key" else (by,)
    return await stream_csv(request, "usage", (*names, *USAGE.names), read)


def _find_unit(by: Group) -> ChartUnit:
    return "hour" if by == "hour" else "day"


def _read_report(
    books: Books, request: ConsoleRequest, account_id: int | None, by: Group
) -> tuple[UsageFilter, UsageReport, list[Json]]:
    """Return the filter, the report and the rows of the table, from one state of the ledger."""
    query = request.query
    first_day, last_day = read_days(query, books.clock() // DAY_MS, by)
    chosen = UsageFilter(account_id, first_day, last_day, query.text("key"), query.text("model"))
    with books.snapshot():
        report = UsageBook(books).report(chosen, _find_unit(by), by_key=by == "key")
        return chosen, report, _list_rows(books, by, chosen, report)


def read_days(query: Query, today: int, by: Group) -> tuple[int, int]:
    """Read `from` and `to`, by default the days up to today."""
    first, last = query.days()
    last_day = today if last is None else last
    first_day = max(last_day - DEFAULT_DAYS + 1, FIRST_DAY) if first is None else first
    if first_day > last_day:
        raise invalid_field("from", "'from' must not be after today.")
    most = MAX_DAYS_BY_HOUR if by == "hour" else MAX_DAYS
    if last_day - first_day >= most:
        raise ConsoleError(
            400,
            "range_too_long",
            f"At most {most} days can be shown by {by}. Choose a later 'from' or an earlier 'to'.",
            "from",
        )
    return first_day, last_day


def _list_rows(books: Books, by: Group, chosen: UsageFilter, report: UsageReport) -> list[Json]:
    """List usage by time, or by another group with the most expensive first."""
    if by == "key":
        return [{**KEY_LABEL.describe(key), **USAGE.describe(usage)} for key, usage in report.keys]
    if by == "hour":
        hours = groupby(report.points, lambda point: point.at)
        found = [(format_hour(at), sum_usage(one.usage for one in points)) for at, points in hours]
        return [{by: name, **USAGE.describe(usage)} for name, usage in found]
    found = _sum_days(books, by, chosen)
    if by == "model":
        found.sort(key=lambda row: (-row[1].cost_nano, row[0]))
    rows: list[Json] = [{by: name, **USAGE.describe(usage)} for name, usage in found]
    if by != "account":
        return rows
    days = chosen.last_day + 1 - chosen.first_day
    span = replace(chosen, first_day=chosen.first_day - days, last_day=chosen.first_day - 1)
    earlier = dict(_sum_days(books, by, span))
    costs = [earlier[name].cost_nano if name in earlier else 0 for name, _ in found]
    befores = (describe_amount("cost_before", nano) for nano in costs)
    return [{**row, **before} for row, before in zip(rows, befores, strict=True)]


def _sum_days(books: Books, by: UsageGroup, chosen: UsageFilter) -> list[tuple[str, Usage]]:
    id_ = chosen.account_id
    return UsageBook(books).sum_by(
        by,
        account=None if id_ is None else books.read_account_name(id_),
        since_ms=chosen.first_day * DAY_MS,
        until_ms=(chosen.last_day + 1) * DAY_MS,
        key_id=chosen.key_id,
        model=chosen.model,
    )


def _describe_points(report: UsageReport, unit: ChartUnit) -> list[Json]:
    """Describe the points of the chart. Each date is formatted once, as many points share it."""
    write = format_hour if unit == "hour" else format_day
    moments = {at: write(at) for at in {point.at for point in report.points}}
    return [
        {
            "at": moments[point.at],
            "model": point.model,
            "requests": point.usage.requests,
            "tokens": point.usage.tokens.total,
            **describe_amount("cost", point.usage.cost_nano),
        }
        for point in report.points
    ]


@async_route("GET", "/models", "any")
async def list_models(request: ConsoleRequest) -> Answer:
    gateway = request.gateway
    served = gateway.routes.models
    is_operator = request.account.operator
    models = [
        _describe_model(model, is_on=model.id in served, for_operator=is_operator)
        | (_describe_routes(model, gateway) if is_operator else {})
        for model in gateway.config.models.values()
        if is_operator or (model.id in served and request.account.terms.allows(model.id))
    ]
    currency = gateway.config.billing.currency
    return Answer({"count": len(models), "currency": currency, "models": models})


def _describe_model(model: Model, *, is_on: bool, for_operator: bool) -> dict[str, object]:
    return {
        **describe(model, "id", "aliases", "owned_by", "kind", "unit"),
        "on": is_on,
        "free": model.free,
        "price": describe_price(model.prices.base, for_operator=for_operator),
        "price_when": describe_rules(model.prices, for_operator=for_operator),
        **describe(model, "max_input_tokens", "max_output_tokens"),
    }


def _describe_routes(model: Model, gateway: Gateway) -> dict[str, object]:
    """Describe the routes in the order in which they are tried, and why the model itself is off."""
    providers = gateway.config.providers
    routes = [
        {"provider": at.provider, "model": at.upstream_model, "on": not providers[at.provider].off}
        for at in model.routes
    ]
    return {"off_reason": model.off, "routes": routes}
