"""Alerts: what is wrong is noticed within seconds, queued in the ledger, and delivered at least once.

Without it nothing is sent: the log, the console and the commands show what is wrong to those who look,
and the ledger keeps what was queued.

settings   the table [alerts] of gateway.toml
records    alerts, where they go, and how they are shown
book       the tables of alerts, see `tables.sql`
watch      the chore: looks every few seconds and queues new alerts; sends the alert of a ledger outage itself
findings   what is wrong with providers, usage, budgets, backups; events that are told
delivery   delivers what is due, with back-off
channels   one try: a signed request to a webhook, whose address has to be public for holders, or a run
           of the command
verbs      `alerts list` and `alerts test`
console    where the console is: operators see the latest, everybody sets a webhook; `static` has both

No request waits for this: the chore runs every few seconds, on the ledger in a thread, and does
nothing while `[alerts]` names neither a webhook nor a command. An alert is sent again until its
receiver has confirmed it; after a kill between the two, a receiver sees the same id twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gateway.extension import Extra, LedgerTables, Started, Table

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.config.records import Config, ReadTable
    from gateway.ledger.sql.books import Books


def _find_settings() -> type:
    from gateway.extras.alerts.settings import Alerts

    return Alerts


def _check_values(table: ReadTable) -> Mapping[str, object]:
    from gateway.extras.alerts.settings import check_values

    return check_values(table)


def _find_literals(table: Mapping[str, object]) -> Iterable[str]:
    from gateway.extras.alerts.settings import find_literals

    return find_literals(table)


def _start(gateway: Gateway) -> Started:
    from gateway.extras.alerts.watch import start

    return start(gateway)


def _tell_mismatch(config: Config, text: str, at_ms: int, books: Books | None) -> None:
    from gateway.extras.alerts.delivery import tell_mismatch

    tell_mismatch(config, text, at_ms, books)


def _add_to_console() -> object:
    from gateway.extras.alerts.console import ADDITION

    return ADDITION


EXTRA = Extra(
    needs=("commands", "observations", "operations"),
    adds_to={"console": _add_to_console},
    ledger=LedgerTables(names=("alert_hooks", "alert_conditions", "alerts")),
    tables={
        "alerts": Table(_find_settings, check_values=_check_values, find_literals=_find_literals)
    },
    first_words={"alerts": "Look at alerts, and try where they go."},
    start=_start,
    tell_mismatch=_tell_mismatch,
)
