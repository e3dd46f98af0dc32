"""Routes for operators: charges, the providers' costs, and the margin."""

from __future__ import annotations

from typing import Literal, get_args

from aiohttp import web

from gateway.base.times import DAY_MS, format_day
from gateway.extras.console.additions import find_additions
from gateway.extras.console.lists import Json, stream_csv
from gateway.extras.console.routes import READERS, Answer, ConsoleRequest, async_route, route
from gateway.extras.console.usage import read_days
from gateway.extras.operations.overview import CHARGED, Row
from gateway.extras.reports import records
from gateway.extras.reports.usage import UsageBook
from gateway.extras.reports.views import COSTS
from gateway.ledger.sql.books import Books

Group = Literal["model", "account", "provider", "day"]


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
            records.sum_usage(usage for _, usage, _ in rows),
            records.sum_costs(costs for *_, costs in rows),
        ),
        "chart": {"unit": "day", "points": _list_rows("day", days)},
        **_describe_more_costs(books, request.query.text("account"), first, last),
        "unknown": [model for model, usage, costs in models if costs.known < usage.requests],
    }
    return Answer(body)


@async_route("GET", "/costs.csv", "operator", READERS)
async def download_costs(request: ConsoleRequest) -> web.StreamResponse:
    by = request.query.choice("by", get_args(Group), "model")
    columns = (by, *CHARGED.names, *COSTS.names)

    def read(books: Books, _: None) -> tuple[list[Json], None]:
        return _list_rows(by, _read_rows(books, request, *_read_range(books, request))), None

    return await stream_csv(request, "costs", columns, read)


def _read_range(books: Books, request: ConsoleRequest) -> tuple[Group, int, int]:
    by = request.query.choice("by", get_args(Group), "model")
    return by, *read_days(request.query, books.clock() // DAY_MS, by)


def _read_rows(
    books: Books, request: ConsoleRequest, by: Group, first: int, last: int
) -> list[Row]:
    """Return days in their order, other groups with the least margin first and unknown costs last."""
    request.find_named(books)
    rows = UsageBook(books).sum_with_costs(
        by,
        account=request.query.text("account"),
        since_ms=first * DAY_MS,
        until_ms=(last + 1) * DAY_MS,
    )
    if by != "day":
        rows.sort(key=lambda row: (not row[2].known, row[2].margin_nano, row[0]))
    return rows


def _describe_more_costs(books: Books, account: str | None, first: int, last: int) -> Json:
    """Describe what extras know of other costs, such as fees."""
    more: dict[str, object] = {}
    for one in find_additions():
        more |= one.describe_costs(books, account, first * DAY_MS, (last + 1) * DAY_MS)
    return more


def _list_rows(by: Group, rows: list[Row]) -> list[Json]:
    return [{by: name, **_describe(usage, costs)} for name, usage, costs in rows]


def _describe(usage: records.Usage, costs: records.ProviderCosts) -> dict[str, object]:
    return {**CHARGED.describe(usage), **COSTS.describe(costs)}
