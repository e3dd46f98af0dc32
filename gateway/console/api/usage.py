"""The signed-in account's usage, and for operators any account's, by day, hour, model or key, as JSON and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, TypeVar, get_args

from aiohttp import web

from gateway.admin import views
from gateway.console.csv_stream import Chunk, stream_csv
from gateway.console.fields import Query, read_id
from gateway.console.refusals import ConsoleError, invalid_field
from gateway.console.state import EVERY_TOKEN, Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger.call_records import (
    ChartUnit,
    Usage,
    UsageFilter,
    UsagePoint,
    UsageReport,
    sum_usage,
)
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount
from gateway.times import DAY_MS, format_day, format_hour

Group = Literal["day", "hour", "model", "key"]
GROUPS: Final[tuple[Group, ...]] = get_args(Group)
MAX_DAYS: Final[dict[Group, int]] = {"day": 366, "hour": 31, "model": 366, "key": 366}
"""Days of a report: a leap year or, by the hour, a month. A chart has no room for more points."""
DEFAULT_DAYS: Final = 30
"""Days of a report without a first day: about a month, as bills have it."""
FIRST_DAY: Final = -719_162
"""1 January of the year 1, the first date that Python can represent."""

_SUMS: Final = views.USAGE.names
COLUMNS: Final[dict[Group, tuple[str, ...]]] = {
    "day": ("day", *_SUMS),
    "hour": ("hour", *_SUMS),
    "model": ("model", *_SUMS),
    "key": ("key", "key_name", *_SUMS),
}

Json = dict[str, object]
Place = TypeVar("Place", int, str)


@dataclass(frozen=True, slots=True)
class Asked:
    """A usage query, checked."""

    by: Group
    chosen: UsageFilter

    @property
    def unit(self) -> ChartUnit:
        return "hour" if self.by == "hour" else "day"

    def read(self, books: Books) -> UsageReport:
        return books.usage.report(self.chosen, self.unit, by_key=self.by == "key")


def show_usage(books: Books, request: ConsoleRequest) -> Answer:
    return _report(books, request, request.account.id)


def show_account_usage(books: Books, request: ConsoleRequest) -> Answer:
    """Show any account's usage to operators."""
    account_id = read_id(request.segment("id"), "account")
    books.accounts.find_name(account_id)
    return _report(books, request, account_id)


def _report(books: Books, request: ConsoleRequest, account_id: int) -> Answer:
    asked = _read_query(request.query, account_id, books.clock() // DAY_MS)
    report = asked.read(books)
    body = {
        "from": format_day(asked.chosen.first_day),
        "to": format_day(asked.chosen.last_day),
        "by": asked.by,
        "currency": request.gateway.config.billing.currency,
        "rows": _ROWS[asked.by](report),
        "totals": views.USAGE.describe(sum_usage(point.usage for point in report.points)),
        "chart": {"unit": asked.unit, "points": _describe_points(report, asked.unit)},
        "models": list(report.models),
    }
    return Answer(body)


async def download_usage(request: ConsoleRequest) -> web.StreamResponse:
    by = _read_group(request.query)

    def read(books: Books, _: None) -> Chunk[None]:
        asked = _read_query(request.query, request.account.id, books.clock() // DAY_MS)
        return Chunk(_ROWS[by](asked.read(books)), None)

    return await stream_csv(request, "usage", COLUMNS[by], read)


def _read_query(query: Query, account_id: int, today: int) -> Asked:
    by = _read_group(query)
    first_day, last_day = read_days(query, today, MAX_DAYS[by], by)
    chosen = UsageFilter(account_id, first_day, last_day, query.text("key"), query.text("model"))
    return Asked(by, chosen)


def read_days(query: Query, today: int, most: int, by: str) -> tuple[int, int]:
    """Read `from` and `to`, at most so many days; by default the days up to today."""
    first, last = query.days()
    last_day = today if last is None else last
    first_day = max(last_day - DEFAULT_DAYS + 1, FIRST_DAY) if first is None else first
    if first_day > last_day:
        raise invalid_field("from", "'from' must not be after today.")
    if last_day - first_day >= most:
        raise ConsoleError(
            400,
            "range_too_long",
            f"At most {most} days can be shown by {by}. Choose a later 'from' or an earlier 'to'.",
            "from",
        )
    return first_day, last_day


def _read_group(query: Query) -> Group:
    by = query.choice("by", GROUPS, "day")
    return next(group for group in GROUPS if group == by)


def _list_by_time(name: ChartUnit, report: UsageReport) -> list[Json]:
    sums = _sum_by(report.points, lambda point: point.at)
    return [{name: _FORMATS[name](at), **views.USAGE.describe(usage)} for at, usage in sums.items()]


def _list_by_model(report: UsageReport) -> list[Json]:
    """List usage by model, the most expensive first."""
    sums = _sum_by(report.points, lambda point: point.model)
    ordered = sorted(sums.items(), key=lambda row: (-row[1].cost_nano, row[0]))
    return [{"model": model, **views.USAGE.describe(usage)} for model, usage in ordered]


def _list_by_key(report: UsageReport) -> list[Json]:
    return [
        {
            "key": key.id,
            "key_name": key.name,
            "key_display": key.display,
            **views.USAGE.describe(usage),
        }
        for key, usage in report.keys
    ]


_ROWS: Final[dict[Group, Callable[[UsageReport], list[Json]]]] = {
    "day": partial(_list_by_time, "day"),
    "hour": partial(_list_by_time, "hour"),
    "model": _list_by_model,
    "key": _list_by_key,
}


def _sum_by(
    points: Iterable[UsagePoint], place: Callable[[UsagePoint], Place]
) -> dict[Place, Usage]:
    """Sum up usage by `place`, in the order in which places first occur."""
    found: dict[Place, list[Usage]] = {}
    for point in points:
        found.setdefault(place(point), []).append(point.usage)
    return {place: sum_usage(usages) for place, usages in found.items()}


def _describe_points(report: UsageReport, unit: ChartUnit) -> list[Json]:
    """Describe the points of the chart. Each date is formatted once, as many points share it."""
    moments = {at: _FORMATS[unit](at) for at in {point.at for point in report.points}}
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


_FORMATS: Final[dict[ChartUnit, Callable[[int], str]]] = {"day": format_day, "hour": format_hour}

ROUTES: Final = (
    Route("GET", "/console/api/usage", "any", in_books_thread(show_usage)),
    Route("GET", "/console/api/usage.csv", "any", download_usage),
    Route(
        "GET",
        "/console/api/accounts/{id}/usage",
        "operator",
        in_books_thread(show_account_usage),
        EVERY_TOKEN,
    ),
)
