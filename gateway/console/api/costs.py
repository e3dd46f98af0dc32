"""Operators: what was charged, what providers bill for it, and the margin."""

from __future__ import annotations

from typing import Final, Literal

from aiohttp import web

from gateway.admin import views
from gateway.console.api.usage import read_days
from gateway.console.lists import Json, stream_csv
from gateway.console.routes import READERS, Answer, ConsoleRequest, async_route, route
from gateway.ledger.call_records import ProviderCosts, Usage, sum_costs, sum_usage
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount
from gateway.times import DAY_MS, format_day

Group = Literal["model", "account", "provider", "day"]
GROUPS: Final[tuple[Group, ...]] = ("model", "account", "provider", "day")

Row = tuple[str, Usage, ProviderCosts]


@route("GET", "/costs", "operator", READERS)
def show_costs(books: Books, request: ConsoleRequest) -> Answer:
    """Show all groups that were used, their total, and the days for a chart."""
    by, first, last = _read_range(books, request)
    with books.snapshot():
        rows, models, days = (
            _read_rows(books, request, group, first, last) for group in (by, "model", "day")
        )
    body = {
        "from": format_day(first),
        "to": format_day(last),
        "by": by,
        "currency": request.gateway.config.billing.currency,
        "rows": _list_rows(by, rows),
        "totals": _describe(
            sum_usage([Usage(), *(usage for _, usage, _ in rows)]),
            sum_costs(costs for *_, costs in rows),
        ),
        "chart": {"unit": "day", "points": _list_rows("day", days)},
        "unknown": [model for model, usage, costs in models if costs.known < usage.requests],
    }
    return Answer(body)


@async_route("GET", "/costs.csv", "operator", READERS)
async def download_costs(request: ConsoleRequest) -> web.StreamResponse:
    by = request.query.choice("by", GROUPS, "model")
    columns = (by, "requests", "charged", "charged_nano", *views.COSTS.names)

    def read(books: Books, _: None) -> tuple[list[Json], None]:
        return _list_rows(by, _read_rows(books, request, *_read_range(books, request))), None

    return await stream_csv(request, "costs", columns, read)


def _read_range(books: Books, request: ConsoleRequest) -> tuple[Group, int, int]:
    by = request.query.choice("by", GROUPS, "model")
    return by, *read_days(request.query, books.clock() // DAY_MS, by)


def _read_rows(
    books: Books, request: ConsoleRequest, by: Group, first: int, last: int
) -> list[Row]:
    """Return days in their order, and others with the least margin first, unknown costs last."""
    request.find_named(books)
    rows = books.usage.sum_with_costs(
        by,
        account=request.query.text("account"),
        since_ms=first * DAY_MS,
        until_ms=(last + 1) * DAY_MS,
    )
    return rows if by == "day" else sorted(rows, key=_by_margin)


def _by_margin(row: Row) -> tuple[bool, int, str]:
    name, _, costs = row
    return not costs.known, costs.margin_nano, name


def _list_rows(by: Group, rows: list[Row]) -> list[Json]:
    return [{by: name, **_describe(usage, costs)} for name, usage, costs in rows]


def _describe(usage: Usage, costs: ProviderCosts) -> dict[str, object]:
    return {
        "requests": usage.requests,
        **describe_amount("charged", usage.cost_nano),
        **views.COSTS.describe(costs),
    }
