"""The verbs `alerts list` and `alerts test`."""

from __future__ import annotations

from gateway.base.process import ExitCode
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.verbs import arg, verb
from gateway.config.load import load_config
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.records import ALERT, Alert, make_alert_id
from gateway.extras.alerts.settings import Alerts


@verb(
    "alerts list",
    examples=("alerts list", "alerts list --limit 5 --json"),
    arguments=(arg("--limit", read.count_above_zero, "the most to list", default=20),),
)
def list_alerts(command: Command, limit: int) -> None:
    """List the latest alerts to the operator, and whether they were delivered."""
    command.show_list(AlertBook(command.open_books()).read_latest(limit), ALERT)


@verb("alerts test", examples=("alerts test", "alerts test --json"), load=load_config)
def send_test(command: Command) -> int:
    """Send a test to the webhook and the command under [alerts], and say how it went."""
    import asyncio

    from gateway.extras.alerts.delivery import try_channels  # with all that it takes to send

    config = command.config.find(Alerts)
    if not config.channels:
        command.say(
            "No webhook and no command is set under [alerts] in gateway.toml."
            " gateway/extras/alerts/alerts.md has examples."
        )
        return ExitCode.FAILED
    alert_id = make_alert_id()
    alert = Alert("test", "test", alert_id, "This is a test.")
    reasons = asyncio.run(try_channels(config, alert, alert_id, config.channels))
    command.show([{"channel": channel, "reason": reason} for channel, reason in reasons.items()])
    for channel, reason in reasons.items():
        command.say(f"{channel}: {reason or 'delivered'}")
    return ExitCode.FAILED if any(reasons.values()) else ExitCode.OK
