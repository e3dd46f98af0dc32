"""The verbs `providers`, `refusals` and `events`."""

from __future__ import annotations

from functools import partial
from typing import Final

from gateway.admin.fields import Columns
from gateway.base.times import DAY_MS, format_moment
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.output import render
from gateway.cli.verbs import ACCOUNT, LIMIT, SINCE, arg, flag, verb
from gateway.extras.observations.describing import REFUSED, describe_failure
from gateway.extras.observations.records import UpstreamFailure, UpstreamView
from gateway.extras.operations import health
from gateway.extras.operations.events import EVENT, EventFilter, EventLog
from gateway.extras.operations.health import LatencyRow
from gateway.extras.reports.views import show_latest

LATENCIES: Final = (
    "Complete replies: half, and 95 %, took no longer than about. Last hour: this hour of the clock and"
    " the one before."
)
"""Above the table of latencies."""


def _describe_latency(row: LatencyRow, span: str, name: str) -> str:
    latency = row.hour if span == "hour" else row.day
    if name == "calls":
        return str(latency.calls)
    p50_ms, p95_ms = (getattr(latency, f"{name}_{part}_ms") for part in ("p50", "p95"))
    return "-" if p50_ms is None else f"{p50_ms / 1000:.2f} / {p95_ms / 1000:.2f} s"


RECENT_MS: Final = 7 * DAY_MS
"""How far back refusals are shown without `--since`: a week, as each refused request is kept that long."""

_PROVIDERS: Final[Columns[UpstreamView]] = (
    ("PROVIDER", lambda seen: seen.provider),
    ("MODEL THERE", lambda seen: seen.upstream_model),
    ("STATE", lambda seen: health.judge([seen]).words),
    (">LAST HOUR", lambda seen: str(seen.hour)),
    (">TODAY", lambda seen: str(seen.today)),
    ("LAST FAILURE", lambda seen: _describe_last(seen.failure)),
)


_LATENCIES: Final[Columns[LatencyRow]] = (
    ("PROVIDER", lambda row: row.name[0]),
    ("MODEL THERE", lambda row: row.name[1]),
    *(
        (f">{title}, {what}", partial(_describe_latency, span=span, name=name))
        for span, title in (("hour", "LAST HOUR"), ("day", "DAY"))
        for what, name in (("CALLS", "calls"), ("FIRST BYTE", "first_byte"), ("TOTAL", "total"))
    ),
)


@verb(
    "providers",
    examples=("providers", "providers --day yesterday --json"),
    arguments=(
        arg("--day", read.start, "the UTC day of this time for latencies (default: today)"),
    ),
)
def providers(command: Command, day: int | None) -> None:
    books = command.open_books()
    rows = health.list_upstream(books, command.config)
    chosen = None if day is None else day // DAY_MS
    latencies, _ = health.list_latencies(books, "route", chosen)
    by_name = {one.name: one for one in latencies}
    described = [
        {
            "provider": seen.provider,
            "model": seen.upstream_model,
            **health.describe_upstream(health.judge([seen])),
            "latency": health.describe_latencies(
                by_name.get((seen.provider, seen.upstream_model)) or LatencyRow()
            ),
        }
        for seen in rows
    ]
    page = render(_PROVIDERS, rows)
    if latencies:
        page += f"\n\n{LATENCIES}\n{render(_LATENCIES, latencies)}"
    command.show(described, page)
    if any(row["state"] == "not_asked" for row in described):
        command.say(
            "Whether a provider is off depends on the environment of the gateway that serves: its"
            " console shows it."
        )


@verb(
    "refusals",
    examples=("refusals", "refusals --account alice --since yesterday", "refusals --each"),
    arguments=(ACCOUNT, SINCE, flag("--each", "the latest requests one by one, of this week")),
)
def refusals(command: Command, account: str | None, since: int | None, *, each: bool) -> None:
    books = command.open_books()
    since_ms = books.clock() - RECENT_MS if since is None else since
    if not each:
        rows = health.list_refusals(books, account, since_ms)
        command.show_list(rows, health.REFUSAL)
        if any(one.code == "model_not_found" and not one.model for one in rows):
            command.say("Models that are not configured have no name here; `--each` shows it.")
    if each or (account is not None and not command.as_json):
        command.show_list(health.list_refused(books, account, since_ms), REFUSED)


@verb(
    "events",
    examples=(
        "events --since 24h",
        "events --search alice --limit 200",
        "events --search key.revoke",
    ),
    arguments=(
        arg("--search", "TEXT", "only those whose actor, action, account or target contains TEXT"),
        SINCE,
        LIMIT,
    ),
)
def events(command: Command, search: str | None, since: int | None, limit: int) -> None:
    chosen = EventFilter(search, since_ms=since or 0)
    rows = EventLog(command.open_books()).read_page(chosen, None, limit + 1)
    show_latest(command, "event", rows, EVENT, limit)


def _describe_last(failure: UpstreamFailure | None) -> str:
    if failure is None:
        return "-"
    return f"{format_moment(failure.at_ms)} {describe_failure(failure)} {failure.request_id}"
