"""The chore: every few seconds look for problems, queue new alerts, deliver due ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from gateway.api.state import Gateway
from gateway.base.times import unix_ms
from gateway.base.turns import spawn
from gateway.extension import Started, find_added
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.delivery import Deliveries, tell_at_once, use_books
from gateway.extras.alerts.findings import (
    find_budgets,
    find_key_problems,
    find_missing_usages,
    find_old_backup,
    find_told_events,
    judge_providers,
)
from gateway.extras.alerts.records import Alert, AlertKind, AlertState, Lasting
from gateway.extras.alerts.settings import Alerts
from gateway.extras.operations.needs import name_node
from gateway.ledger.budget_records import Budget
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books import Books

log = logging.getLogger("gateway.alerts")

LOOK_SECONDS: Final = 3.0
"""The pause between two looks. Each reads a few small tables in a thread."""
UNWRITABLE: Final = "The ledger cannot be written{}: new requests are refused. Look at {}."
WRITABLE: Final = "The ledger can be written again{}."


class Watch:
    def __init__(
        self,
        gateway: Gateway,
        *,
        list_budgets: Callable[[], Iterable[Budget]] = tuple,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._gateway = gateway
        self._list_budgets = list_budgets
        self._look_seconds = look_seconds
        self._location = gateway.config.storage.location
        self._deliveries = Deliveries(self._location, gateway.ledger.clock)
        self._raised: frozenset[tuple[str, str, str]] = frozenset()
        """The keys of problems queued already, so that they are not written again at each look."""
        self._added = [one for one in find_added("alerts") if isinstance(one, Lasting)]
        self._told_changes: dict[AlertKind, int] = {}
        """The last event of each kind that raised an alert."""
        self._outage: asyncio.Task[None] | None = None
        """The task that sends the alert of an outage of the ledger, as long as that lasts."""
        self._outage_began_ms = 0
        self._node = name_node(self._location)
        """The name of this process if others may serve from the same ledger: each reports its own
        outage."""
        self._by_node = f" by {self._node}" if self._node else ""
        self._outage_alerts: Alerts | None = None
        """The settings by which that alert was sent, with its channels."""
        self._is_failing = False

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                await asyncio.sleep(self._look_seconds)
                await self._look_safely()
        finally:
            self._deliveries.close()
            if self._outage is not None:
                self._outage.cancel()

    async def _look_safely(self) -> None:
        try:
            await self.look()
        except LedgerError as error:
            if not self._is_failing:
                log.warning("alerts wait, as the ledger cannot be used: %s", error)
            self._is_failing = True
        except Exception:
            log.exception("a look for alerts failed")
        else:
            self._is_failing = False

    async def look(self) -> None:
        """Look once. Raises LedgerError."""
        alerts = self._gateway.config.find(Alerts)
        if not self._gateway.ledger.writable:
            # The queue is in the ledger, so this alert is sent from memory.
            self._tell_outage(alerts)
            return
        if not alerts.channels:
            return
        usages = self._gateway.missing_usages.list_latest()
        noted = [
            *find_missing_usages(usages, self._gateway.ledger.clock()),
            *self._end_outage(),
            *find_key_problems(self._gateway.routes, self._node, self._raised),
        ]
        queue = partial(self._queue, noted, [*self._list_budgets()])
        # Replaced only after the commit: what could not be queued counts as new at the next look.
        self._raised = await use_books(self._location, queue)
        self._outage = None
        await self._deliveries.start_due(alerts)

    def _queue(
        self, noted: Sequence[Alert], budgets: Sequence[Budget], books: Books
    ) -> frozenset[tuple[str, str, str]]:
        """Queue new alerts, each in a short transaction; return the keys of the problems found in memory.

        This runs in the thread: there may be a budget for each of many thousand keys.
        """
        config, alerts = self._gateway.config, AlertBook(books)
        billing, settings = config.billing, config.find(Alerts)
        channels = settings.channels
        spent = find_budgets(budgets, books.clock(), billing.currency)
        found = {alert.key: alert for alert in (*noted, *spent)}
        new = [alert for key, alert in found.items() if key not in self._raised]
        alerts.raise_all(new, channels)
        alerts.follow_balances(billing.low_balance_nano, billing.currency, channels)
        seen = judge_providers(books, config)
        alerts.follow("provider_failing", seen.failing, seen.working, channels, seen.unknown)
        old = find_old_backup(books, settings.backup_days)
        alerts.follow("old_backup", old, {}, channels)
        for one in self._added:
            found_more = one.find(books, config)
            more = (found_more.standing, found_more.ended, channels, found_more.unknown)
            alerts.follow(one.kind, *more)
        changes = find_told_events(books, self._told_changes)
        alerts.raise_all(changes, channels)
        self._told_changes |= {alert.kind: int(alert.occurrence) for alert in changes}
        return frozenset(found)

    def _tell_outage(self, alerts: Alerts) -> None:
        """Send the alert of an outage, which the ledger cannot queue; again if the settings changed."""
        if self._outage is None:
            self._outage_began_ms = unix_ms()
        elif alerts == self._outage_alerts:
            return
        else:
            self._outage.cancel()
        where = "PostgreSQL" if self._node else "the disk"
        alert = self._describe_outage(UNWRITABLE.format(self._by_node, where))
        self._outage = spawn(tell_at_once(alerts, alert), name="outage-alert")
        self._outage_alerts = alerts

    def _end_outage(self) -> list[Alert]:
        """Return the alert that the outage is over, if there was one."""
        if self._outage is None:
            return []
        self._outage.cancel()
        return [self._describe_outage(WRITABLE.format(self._by_node), " end", state="ended")]

    def _describe_outage(self, text: str, end: str = "", *, state: AlertState = "raised") -> Alert:
        subject = f"ledger, {self._node}" if self._node else "ledger"
        occurrence = f"{self._outage_began_ms}{end}"
        return Alert("ledger_unwritable", subject, occurrence, text, state=state)


def start(gateway: Gateway) -> Started:
    """Look again and again while the gateway serves."""
    return Started(run=partial(_run, gateway))


@asynccontextmanager
async def _run(gateway: Gateway) -> AsyncIterator[None]:
    looking = spawn(Watch(gateway, list_budgets=gateway.ledger.budgets).run(), name="alerts")
    try:
        yield
    finally:
        looking.cancel()
