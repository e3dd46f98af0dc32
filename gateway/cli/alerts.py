"""The verbs for what the server notices: alerts, how providers answer, refusals."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.admin import observations
from gateway.alerts.delivery import try_channels
from gateway.cli import arguments as read
from gateway.cli.arguments import Column, Columns, render_table
from gateway.cli.command import Command
from gateway.cli.verbs import ACCOUNT, JSON, SINCE, arg, verb
from gateway.config.load import load_config
from gateway.exit_codes import ExitCode
from gateway.ledger.alert_records import (
    Alert,
    AlertView,
    CallSums,
    RefusalView,
    UpstreamFailure,
    make_alert_id,
)
from gateway.times import DAY_MS, format_moment


def _describe_state(alert: AlertView) -> str:
    if alert.delivered_ms is not None:
        return f"delivered {format_moment(alert.delivered_ms)}"
    word = "given up" if alert.next_try_ms is None else "waits"
    return f"{word}: {alert.reason}" if alert.reason else word


_ALERTS: Final[Columns[AlertView]] = (
    ("RAISED UTC", lambda one: format_moment(one.created_ms)),
    ("BY", lambda one: one.channel),
    ("KIND", lambda one: one.kind),
    ("STATE", _describe_state),
    ("TEXT", lambda one: one.text),
)


@verb(
    "alerts list",
    "alerts list",
    "alerts list --limit 5 --json",
    arguments=(
        arg("--limit", "N", read.count_above_zero, "the most to list", default=20),
        JSON,
    ),
)
def list_alerts(command: Command, limit: int) -> None:
    """List the latest alerts to the operator, and whether they were delivered."""
    with command.open_books() as books:
        rows = books.alerts.read_latest(limit)
    command.show_list(rows, observations.describe_alert, _ALERTS)


@verb("alerts test", "alerts test", "alerts test --json", arguments=(JSON,), load=load_config)
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

_PROVIDERS: Final = (
    *map(Column, ("PROVIDER", "MODEL THERE", "STATE")),
    *(Column(title, right=True) for title in ("LAST HOUR", "TODAY")),
    Column("LAST FAILURE"),
)
_REFUSALS: Final[Columns[RefusalView]] = (
    ("LAST UTC", lambda one: format_moment(one.last_ms)),
    ("ACCOUNT", lambda one: "unknown key" if one.account is None else one.account),
    ("CODE", lambda one: one.code),
    ("MODEL", lambda one: one.model or "-"),
    ("REQUESTS", lambda one: str(one.count)),
    ("LAST REQUEST", lambda one: one.last_request_id),
)


@verb("providers", "providers", "providers --json", arguments=(JSON,))
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
        render_table(_PROVIDERS, [_make_cells(*row) for row in judged]),
    )


@verb(
    "refusals",
    "refusals",
    "refusals --account alice --since yesterday",
    arguments=(ACCOUNT, SINCE, JSON),
)
def refusals(command: Command, account: str | None, since: int | None) -> None:
    with command.open_books() as books:
        since_ms = books.clock() - RECENT_MS if since is None else since
        rows = observations.list_refusals(books, account, since_ms)
    command.show_list(rows, observations.describe_refusal, _REFUSALS)


def _make_cells(provider: str, model: str, state: observations.UpstreamState) -> tuple[str, ...]:
    return (
        provider,
        model,
        state.words,
        _describe_sums(state.hour),
        _describe_sums(state.today),
        _describe_last(state),
    )


def _describe_sums(sums: CallSums) -> str:
    return f"{sums.calls}, {sums.failures} failed" if sums.failures else str(sums.calls)


def _describe_last(state: observations.UpstreamState) -> str:
    failure = state.failure
    if failure is None:
        return "-"
    return f"{format_moment(failure.at_ms)} {describe_failure(failure)} {failure.request_id}"


def describe_failure(failure: UpstreamFailure) -> str:
    """Return why the provider failed, and at which address."""
    return " at ".join(filter(None, (failure.reason, failure.url)))
