"""Trends in the console: how long replies took and what failed, in steps of a span."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from aiohttp import web

from gateway.base.times import DAY_MS, format_iso
from gateway.extras.console.additions import Addition
from gateway.extras.console.errors import invalid_field
from gateway.extras.console.fields import Query, parse_moment_ms
from gateway.extras.console.lists import Json, stream_csv
from gateway.extras.console.routes import READERS, Answer, ConsoleRequest, async_route, route
from gateway.extras.operations.health import LATENCY
from gateway.extras.reports.filters import COMPLETE_STATUS
from gateway.extras.reports.records import CallFilter
from gateway.extras.trends.book import TrendBook
from gateway.extras.trends.records import Dimension, Group, Step, Trends
from gateway.ledger.call_records import OUTCOME_WORDS
from gateway.ledger.sql.books import Books

ADDITION: Final = Addition(scripts=(Path(__file__).with_name("static"),), pages=("trends",))
MAX_MS: Final = 31 * DAY_MS
"""The longest span: a month, by the hour."""
SLOWEST: Final = 10
"""The most groups named in each dimension: they fit on a page."""
FAILING: Final = 3
"""The most names in each dimension for a kind of failure: they fit on a line."""
_COLUMNS: Final = ("at", "calls", "failed", *LATENCY.names[1:], "failures")
"""`LATENCY` begins with its count, that of complete replies."""


@route("GET", "/trends", "operator", READERS)
def show_trends(books: Books, request: ConsoleRequest) -> Answer:
    trends = _read(books, request)
    span = trends.span
    kinds = sorted(trends.total.failures, key=lambda kind: (-trends.total.failures[kind], kind))
    body = {
        "from": format_iso(span.first_ms),
        "to": format_iso(span.end_ms),
        "step_seconds": span.step_ms // 1000,
        "exact": trends.is_exact,
        "kinds": {kind: _label(kind) for kind in kinds},
        "steps": [{"at": format_iso(one.at_ms), **_describe(one)} for one in trends.steps],
        "total": _describe(trends.total),
        "before": trends.before and _describe(trends.before),
        "slower": {
            dimension: {
                "count": len(one.groups),
                "compared": one.compared,
                "rows": [_describe_group(group) for group in one.groups[:SLOWEST]],
            }
            for dimension, one in trends.slower.items()
        },
        "failing": {kind: _describe_failing(trends.failing[kind]) for kind in kinds},
    }
    return Answer(body)


@async_route("GET", "/trends.csv", "operator", READERS)
async def download_trends(request: ConsoleRequest) -> web.StreamResponse:
    return await stream_csv(request, "trends", _COLUMNS, partial(_read_lines, request))


def _read_lines(request: ConsoleRequest, books: Books, _: None) -> tuple[list[Json], None]:
    lines: list[Json] = [
        {
            **_describe(one),
            "at": format_iso(one.at_ms),
            "failures": "; ".join(f"{_label(kind)}: {n}" for kind, n in one.failures.items()),
        }
        for one in _read(books, request).steps
    ]
    return lines, None


def _read(books: Books, request: ConsoleRequest) -> Trends:
    query = request.query
    chosen = CallFilter(
        request.find_named(books), model=query.text("model"), provider=query.text("provider")
    )
    first_ms, end_ms = read_span(query, books.clock())
    return TrendBook(books).read(chosen, first_ms, end_ms, request.gateway.config)


def read_span(query: Query, now_ms: int) -> tuple[int, int]:
    """Read `from` and `to`, by default the last 24 hours; `to` as a day is the end of that day."""
    first, last = query.text("from"), query.text("to")
    end_ms = now_ms
    if last is not None:
        end_ms = parse_moment_ms("to", last)
        end_ms += DAY_MS if len(last) == len("2026-05-14") else 0
    first_ms = end_ms - DAY_MS if first is None else parse_moment_ms("from", first)
    if end_ms > now_ms + DAY_MS:
        raise invalid_field("to", "'to' must be at most a day ahead.")
    if not 0 <= first_ms < end_ms:
        raise invalid_field("from", "'from' must be before 'to'.")
    if end_ms - first_ms > MAX_MS:
        raise invalid_field("from", "At most 31 days can be shown. Choose a later 'from'.")
    return first_ms, end_ms


def _describe(one: Step) -> dict[str, object]:
    return {
        **LATENCY.describe(one.latency),
        "calls": one.calls,
        "failed": one.failed,
        "failures": one.failures,
    }


def _describe_group(group: Group) -> dict[str, object]:
    return {
        "name": group.name,
        "measure": group.measure,
        "growth_percent": group.growth_percent,
        "now": LATENCY.describe(group.now),
        "before": LATENCY.describe(group.before),
    }


def _describe_failing(counts: Mapping[Dimension, Counter[str]]) -> dict[str, object]:
    return {
        dimension: {
            "count": len(one),
            "rows": [{"name": name, "failed": n} for name, n in one.most_common(FAILING)],
        }
        for dimension, one in counts.items()
    }


def _label(kind: str) -> str:
    """Return a kind of failure in words, such as "provider failed 502"."""
    outcome, _, status = kind.partition(" ")
    words: dict[str, str] = {name: one.label for name, one in OUTCOME_WORDS.items()}
    had_begun = status == str(COMPLETE_STATUS)  # so the status says nothing
    return " ".join([words[outcome], *([] if had_begun else status.split())])
