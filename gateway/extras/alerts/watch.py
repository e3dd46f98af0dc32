"""The chore: every few seconds look for problems, queue new alerts, deliver due ones."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Final

from gateway.admin import fields
from gateway.api.state import Gateway
from gateway.base.money import format_amount
from gateway.base.tasks import spawn
from gateway.base.times import DAY_MS, format_day, format_moment, unix_ms
from gateway.base.usage import MissingUsage
from gateway.config.records import Config
from gateway.extension import Started
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.delivery import Deliveries, tell_at_once, use_books
from gateway.extras.alerts.records import Alert, AlertKind, AlertState
from gateway.extras.alerts.settings import Alerts
from gateway.extras.operations import health
from gateway.ledger.key_records import Budget
from gateway.ledger.observation_records import UpstreamView
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books import Books
from gateway.upstream.routing import Routes

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
        self._told_changes: dict[AlertKind, int] = {}
        """The last event of each kind that raised an alert."""
        self._outage: asyncio.Task[None] | None = None
        """Tells that the ledger cannot be written, as long as it cannot."""
        self._outage_began_ms = 0
        self._node = fields.name_node(self._location)
        """The name of this process if others may serve from the same ledger: each reports its own
        outage."""
        self._by_node = f" by {self._node}" if self._node else ""
        self._outage_alerts: Alerts | None = None
        """The channels that it was sent to."""
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
        changes = find_told_events(books, self._told_changes)
        alerts.raise_all(changes, channels)
        self._told_changes |= {alert.kind: int(alert.occurrence) for alert in changes}
        return frozenset(found)

    def _tell_outage(self, alerts: Alerts) -> None:
        """Tell without the ledger, which cannot queue this; anew if a reload changed who is told."""
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


BUDGET_PERCENTS: Final = (100, 80)
"""The parts of a budget that raise alerts, the largest first: a jump over both raises only the
larger."""
BACKUP: Final = "backup"
"""The subject of the one condition of its kind."""
TOLD_MS: Final = DAY_MS
"""How old a change may be to raise an alert: the gateway may not have been running."""
_TOLD_EVENTS: Final[Mapping[str, tuple[AlertKind, str]]] = {
    "account.password": (
        "password_changed",
        "The password of account '{name}' was changed by {actor}{place}.",
    ),
    "account.totp": (
        "totp_changed",
        "The one-time codes of account '{name}' were {done} by {actor}{place}.",
    ),
    "order.refund": (
        "payment_refunded",
        "A payment by card of account '{name}' was given back: {done}.",
    ),
    "order.dispute": (
        "payment_disputed",
        "A payment by card of account '{name}' is disputed, or a dispute of it ended: {done}.",
    ),
    "order.refuse": (
        "payment_refused",
        "What is told of a card payment of '{name}' contradicts its order and is ignored: {done}.",
    ),
}


def find_budgets(budgets: Iterable[Budget], now_ms: int, currency: str) -> Iterator[Alert]:
    """Yield an alert for each budget of which 80 or 100 % are spent; it is one for each period."""
    for budget in budgets:
        now = budget.show(now_ms)
        for percent in BUDGET_PERCENTS:
            if now.amount_nano > 0 and now.spent_nano * 100 >= now.amount_nano * percent:
                name = "A key's budget" if now.name is None else f"The budget '{now.name}'"
                text = (
                    f"{name} of {format_amount(now.amount_nano)} {currency} is spent to {percent} %"
                    f" or more. It resets at {format_moment(now.resets_ms)} UTC."
                )
                subject, occurrence = now.name or str(now.id), f"{now.id} {now.resets_ms} {percent}"
                yield Alert("budget", subject, occurrence, text, budget.account_id)
                break


def find_missing_usages(found: Iterable[MissingUsage], now_ms: int) -> Iterator[Alert]:
    """Yield an alert for each provider's model whose replies lacked a usage today: one a UTC day."""
    day = now_ms // DAY_MS
    for one in found:
        if one.last_ms // DAY_MS == day:
            text = (
                f"Provider {one.provider} reports no usage, or an implausible one, for model"
                f" {one.model}: {one.count} replies are charged by an estimate since the start."
            )
            subject = f"{one.provider}/{one.model}"
            yield Alert("missing_usage", subject, format_day(day), text)


@dataclass(slots=True)
class Providers:
    """Texts by the names of providers, and the names of those that this process does not judge."""

    failing: dict[str, str] = field(default_factory=dict)
    working: dict[str, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


def judge_providers(books: Books, config: Config) -> Providers:
    """Judge the providers by the calls of all processes; a few failures prove nothing.

    Others may serve from the same ledger, and go by another file for a while, or for ever. So that
    none ends what another begins, a provider fails here only by a model that somebody asked within
    the hour, and works only if none of those fails, those of others among them.
    """
    # One snapshot, as the two are compared below.
    with books.snapshot():
        rows = health.list_upstream(books, config)
        seen = [one for one in books.observations.read_upstream() if one.hour.calls]
    asked: dict[str, list[UpstreamView]] = defaultdict(list)
    for one in seen:
        asked[one.provider].append(one)
    found = Providers(unknown=set(asked))
    for name, group in groupby(rows, key=lambda row: row.provider):
        used = list(group)
        judged = health.judge(used, is_off=config.providers[name].off is not None)
        lately = {one.upstream_model: one for one in asked[name]}
        if judged.state == "failing":
            mine = [one for one in used if one.upstream_model in lately]
            if words := health.find_alarm(mine):
                found.failing[name] = f"Provider {name} is {words}."
            else:
                found.unknown.add(name)
        elif judged.state == "working" and health.judge(lately.values()).state != "failing":
            found.working[name] = f"Provider {name} works again."
    found.unknown -= found.failing.keys() | found.working.keys()
    return found


def find_key_problems(
    routes: Routes, node: str | None, raised: Collection[tuple[str, str, str]]
) -> Iterator[Alert]:
    """Yield an alert for each key of a provider that this process cannot renew, and its end.

    An end is sent only after its beginning was `raised`.
    """
    place = f", {node}" if node else ""  # each process renews its own keys
    for provider in routes.providers.values():
        for number, key in enumerate(provider.keys):
            begun = f"{key.failed_ms} {number}"
            if key.problem:
                text = f"A key of provider {provider.name} was not renewed: {key.problem}."
                yield Alert("key_not_renewed", provider.name + place, begun, text)
            elif ("key_not_renewed", provider.name + place, begun) in raised:
                text = f"The key of provider {provider.name} is renewed again."
                occurrence, subject = f"{begun} end", provider.name + place
                yield Alert("key_not_renewed", subject, occurrence, text, state="ended")


def find_old_backup(books: Books, backup_days: int) -> dict[str, str]:
    """Return the text by its one subject, if the last backup is too old; 0 days never are."""
    last = books.events.find_last("ledger.backup") if backup_days else None
    last_ms = None if last is None else last.at_ms
    if not backup_days or (last_ms is not None and books.clock() - last_ms < backup_days * DAY_MS):
        return {}
    when = "No backup is known" if last_ms is None else f"The last is of {format_moment(last_ms)}"
    often = "day" if backup_days == 1 else f"{backup_days} days"
    return {BACKUP: f"{when}; there should be one every {often}."}


def find_told_events(books: Books, seen: Mapping[AlertKind, int]) -> list[Alert]:
    """Return an alert for each event that raises one, whoever caused it.

    `seen`: the last event of each kind that raised an alert. An alert's occurrence is its event.
    """
    found = []
    for action, (kind, text) in _TOLD_EVENTS.items():
        events = books.events.read_after(action, seen.get(kind, 0), books.clock() - TOLD_MS)
        for event in events:
            name = event.account or ""
            # Of a person in the account, whom the event names; those of orders name the order.
            is_own = event.target is None or not action.startswith("account.")
            who = name if is_own else f"{name}/{event.target}"
            place = f" from {event.address}" if event.address else ""
            told = text.format(name=who, done=event.detail, actor=event.actor, place=place)
            account_id = books.accounts.find_id(name)
            found.append(Alert(kind, name, str(event.id), told, account_id))
    return found
