"""The verbs for alerts: the latest ones, and a test of every way to the operator."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.admin import alerts
from gateway.alerts import try_channels
from gateway.cli.command import Command
from gateway.cli.tables import Columns
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


def list_alerts(command: Command) -> None:
    with command.open_books() as books:
        rows = books.alerts.read_latest(command.options.limit or 0)
    command.show_list(rows, alerts.describe_alert, _ALERTS)


def send_test(command: Command) -> int:
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
