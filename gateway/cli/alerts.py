"""The verbs for what the server notices: alerts, how providers answer, refusals."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.admin import observations, views
from gateway.admin.fields import Columns
from gateway.admin.observations import UpstreamState
from gateway.alerts.delivery import try_channels
from gateway.cli import arguments as read
from gateway.cli.arguments import render
from gateway.cli.command import Command
from gateway.cli.verbs import ACCOUNT, SINCE, arg, verb
from gateway.config.load import load_config
from gateway.exit_codes import ExitCode
from gateway.ledger.alert_records import Alert, CallSums, UpstreamFailure, make_alert_id
from gateway.times import DAY_MS, format_moment


@verb(
    "alerts list",
    "alerts list",
    "alerts list --limit 5 --json",
    arg("--limit", "N", read.count_above_zero, "the most to list", default=20),
)
def list_alerts(command: Command, limit: int) -> None:
    """List the latest alerts to the operator, and whether they were delivered."""
    with command.open_books() as books:
        rows = books.alerts.read_latest(limit)
    command.show_list(rows, views.ALERT)


@verb("alerts test", "alerts test", "alerts test --json", load=load_config)
def send_test(command: Command) -> int:
    """Send a test to the webhook and the command under [alerts], and say how it went."""
    config = command.config.alerts
    if not config.channels:
        command.say("No webhook and no command is set under [alerts] in gateway.toml.")
        return ExitCode.FAILED
    alert_id = make_alert_id()
    alert = Alert("test", "test", alert_id, "This is a test.")
    reasons = asyncio.run(try_channels(config, alert, alert_id, config.channels))
    command.show([{"channel": channel, "reason": reason} for channel, reason in reasons.items()])
    for channel, reason in reasons.items():
        command.say(f"{channel}: {reason or 'delivered'}")
    return ExitCode.FAILED if any(reasons.values()) else ExitCode.OK


RECENT_MS: Final = 7 * DAY_MS
"""How far back refusals are shown unless another time is asked for."""

_PROVIDERS: Final[Columns[tuple[str, str, UpstreamState]]] = (
    ("PROVIDER", lambda row: row[0]),
    ("MODEL THERE", lambda row: row[1]),
    ("STATE", lambda row: row[2].words),
    (">LAST HOUR", lambda row: _describe_sums(row[2].hour)),
    (">TODAY", lambda row: _describe_sums(row[2].today)),
    ("LAST FAILURE", lambda row: _describe_last(row[2].failure)),
)


@verb("providers", "providers", "providers --json")
def providers(command: Command) -> None:
    with command.open_books() as books:
        rows = observations.list_upstream(books, command.config)
    judged = [
        (row.provider.name, row.upstream_model, observations.judge([row.seen])) for row in rows
    ]
    command.show(
        [
            {"provider": name, "model": model, **observations.describe_upstream(state)}
            for name, model, state in judged
        ],
        render(_PROVIDERS, judged),
    )


@verb("refusals", "refusals", "refusals --account alice --since yesterday", ACCOUNT, SINCE)
def refusals(command: Command, account: str | None, since: int | None) -> None:
    with command.open_books() as books:
        since_ms = books.clock() - RECENT_MS if since is None else since
        rows = observations.list_refusals(books, account, since_ms)
    command.show_list(rows, views.REFUSAL)


def _describe_sums(sums: CallSums) -> str:
    return f"{sums.calls}, {sums.failures} failed" if sums.failures else str(sums.calls)


def _describe_last(failure: UpstreamFailure | None) -> str:
    if failure is None:
        return "-"
    return f"{format_moment(failure.at_ms)} {describe_failure(failure)} {failure.request_id}"


def describe_failure(failure: UpstreamFailure) -> str:
    """Return why the provider failed, and at which address."""
    return " at ".join(filter(None, (failure.reason, failure.url)))
