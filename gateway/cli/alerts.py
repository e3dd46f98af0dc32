"""The verbs for alerts: the latest ones, and a test of every way to the operator."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.admin import alerts
from gateway.alerts import try_channels
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.output import Columns
from gateway.cli.verbs import JSON, arg, verb
from gateway.config import load_config
from gateway.exit_codes import ExitCode
from gateway.ledger import Alert, AlertView, make_alert_id
from gateway.times import format_moment


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
    command.show_list(rows, alerts.describe_alert, _ALERTS)


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
