"""Deliver what is due: each alert by itself, again and again with growing pauses, for three days."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from gateway.base.times import DAY_MS, HOUR_MS, unix_ms
from gateway.base.turns import spawn
from gateway.config.records import Config
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.channels import Undelivered, post, run_command
from gateway.extras.alerts.records import Alert, Channel, Due, make_alert_id, write_alert
from gateway.extras.alerts.settings import Alerts
from gateway.ledger.opening import open_books
from gateway.ledger.records import DatabaseUrl, LedgerError, Location
from gateway.ledger.sql.books import Books

log = logging.getLogger("gateway.alerts")

T = TypeVar("T")
Receiver = tuple[Channel, int | None]
"""A channel of the operator's, or the holder of an account."""

FIRST_PAUSE_MS: Final = 10_000
"""The pause after the first failure; it doubles with each."""
LONGEST_PAUSE_MS: Final = HOUR_MS
"""The longest pause: a receiver that was down for a night hears soon after it is back."""
DOUBLINGS: Final = 9
"""Doublings of the first pause after which it is longer than the longest."""
GIVEN_UP_MS: Final = 3 * DAY_MS
"""When tries end: long enough for a weekend. The console shows alerts that were given up."""
MAX_AT_ONCE: Final = 32
"""Deliveries under way at once: each is a connection or a process."""
MAX_PER_RECEIVER: Final = 4
"""How many of them may be for one receiver, so that a hanging receiver does not delay others."""
LEASE_MS: Final = 120_000
"""The lease of an alert: how long one node may work on it before another takes it, with a minute for
clocks that differ."""
LOCK_WAIT_MS: Final = 1000
"""How long a look at the ledger waits for another process's transaction; the next look is near."""


class Unwanted(Undelivered):
    """The receiver is not set any more, so that there will be no other try."""


async def use_books(location: Location, function: Callable[[Books], T]) -> T:
    """Run a function on the books in a thread. Raises LedgerError."""

    def work() -> T:
        with open_books(location) as books:
            books.wait_for_others(LOCK_WAIT_MS)
            return function(books)

    return await asyncio.to_thread(work)


def find_next_try_ms(failures: int, created_ms: int, now_ms: int) -> int | None:
    """Return when to try again after so many failures; None: never."""
    pause_ms = min(FIRST_PAUSE_MS << min(failures - 1, DOUBLINGS), LONGEST_PAUSE_MS)
    next_ms = now_ms + pause_ms
    return next_ms if next_ms - created_ms <= GIVEN_UP_MS else None


async def send(due: Due, config: Alerts) -> None:
    """Deliver an alert, once. Raises Undelivered."""
    body, at_seconds = due.body.encode(), unix_ms() // 1000
    match due.channel:
        case "webhook" if config.webhook:
            await post(
                config.webhook, config.webhook_secret, body, at_seconds=at_seconds, public=False,
                authorities=config.authorities,
            )  # fmt: skip
        case "command" if config.command:
            await run_command(config.command, body, variables=config.command_env)
        case "holder" if due.hook and due.hook.url and due.hook.secret and config.takes_holders:
            public = config.holder_webhooks == "public"
            await post(
                due.hook.url, due.hook.secret, body, at_seconds=at_seconds, public=public,
                authorities=config.authorities,
            )  # fmt: skip
        case _:
            raise Unwanted("it is not set any more")


async def try_channels(
    config: Alerts, alert: Alert, alert_id: str, channels: tuple[Channel, ...]
) -> dict[Channel, str | None]:
    """Send an alert to the operator without the queue; return why each channel failed, or None."""
    now_ms = unix_ms()
    body = write_alert(alert, alert_id, None, now_ms)

    async def try_one(channel: Channel) -> str | None:
        try:
            await send(Due(alert_id, channel, None, body, now_ms, 0, None), config)
        except Undelivered as error:
            return str(error)
        return None

    reasons = await asyncio.gather(*map(try_one, channels))
    return dict(zip(channels, reasons, strict=True))


async def tell_at_once(config: Alerts, alert: Alert) -> None:
    """Send an alert that the ledger cannot queue; try again, with pauses, until each channel has worked.

    Tries end after `GIVEN_UP_MS`.
    """
    alert_id, left, failures, began_ms = make_alert_id(), config.channels, 0, unix_ms()
    while left:
        reasons = await try_channels(config, alert, alert_id, left)
        left = tuple(channel for channel in config.channels if reasons.get(channel))
        for channel in left:
            log.warning("an alert could not be sent by %s: %s", channel, reasons[channel])
        failures += 1
        now_ms = unix_ms()
        next_ms = find_next_try_ms(failures, began_ms, now_ms)
        if next_ms is None:
            return
        if left:
            await asyncio.sleep((next_ms - now_ms) / 1000)


def find_receiver(due: Due) -> Receiver:
    return due.channel, due.account_id if due.channel == "holder" else None


class Deliveries:
    """The deliveries under way, and the results that could not be written yet."""

    def __init__(self, location: Location, clock: Callable[[], int] = unix_ms) -> None:
        self._location = location
        self._clock = clock
        self._is_shared = isinstance(location, DatabaseUrl)
        """True if other nodes deliver from the same queue."""
        self._busy: dict[str, Receiver] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._results: dict[str, Callable[[Books], None]] = {}
        """By alert id. They wait in memory while the ledger cannot be written; nothing is sent twice."""
        self._writing = asyncio.Lock()

    async def start_due(self, config: Alerts) -> None:
        """Start the due deliveries. Raises LedgerError if the queue cannot be used."""
        await self._write_results()
        for due in await use_books(self._location, self._take_due):
            self._busy[due.id] = find_receiver(due)
            task = spawn(self._deliver(due, config), name="alert")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take_due(self, books: Books) -> list[Due]:
        """Choose the deliveries to start, in a thread, without alerts whose result is not written yet."""
        busy = Counter(self._busy.values())
        chosen: list[Due] = []
        for due in AlertBook(books).read_due(MAX_AT_ONCE):
            receiver = find_receiver(due)
            is_free = busy.total() < MAX_AT_ONCE and busy[receiver] < MAX_PER_RECEIVER
            if is_free and due.id not in self._busy:
                busy[receiver] += 1
                chosen.append(due)
        if not chosen or not self._is_shared:
            return chosen
        # Another node may have read the same alerts: only the one whose claim is committed sends them.
        taken = AlertBook(books).claim([due.id for due in chosen], books.clock() + LEASE_MS)
        return [due for due in chosen if due.id in taken]

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _deliver(self, due: Due, config: Alerts) -> None:
        try:
            await send(due, config)
        except Exception as error:  # noqa: BLE001 - whatever fails is tried again
            self._results[due.id] = self._note_failure(due, error)
        else:
            self._results[due.id] = lambda books: AlertBook(books).note_delivered(due.id)
        try:
            await self._write_results()
        except LedgerError as error:
            log.warning("the delivery of an alert could not be noted yet: %s", error)

    def _note_failure(self, due: Due, error: Exception) -> Callable[[Books], None]:
        """Return a function that stores why the delivery failed, and when to try again, if ever."""
        reason = str(error)
        if not isinstance(error, Undelivered):
            log.error("an alert could not be sent", exc_info=error)
            reason = "the gateway failed; see its log"
        next_ms = find_next_try_ms(due.attempts + 1, due.created_ms, self._clock())
        next_ms = None if isinstance(error, Unwanted) else next_ms
        return lambda books: AlertBook(books).note_failure(due.id, reason, next_ms)

    async def _write_results(self) -> None:
        async with self._writing:  # two writers would note a result twice
            results = dict(self._results)
            if not results:
                return

            def write(books: Books) -> None:
                for note in results.values():
                    note(books)

            await use_books(self._location, write)
            # Forgotten only after the commit: if it fails, the next look writes them again.
            for alert_id in results:
                del self._results[alert_id]
                self._busy.pop(alert_id, None)


LIMIT_SECONDS: Final = 15.0
"""How long an alert may hold up the end of a start that failed: two tries."""


def tell_mismatch(config: Config, text: str, at_ms: int, books: Books | None) -> None:
    """Queue the alert that the books do not add up; if they are not open, send it before the process ends."""
    alerts = config.find(Alerts)
    subject = "start" if books is None else "audit"
    alert = Alert("audit_mismatch", subject, str(at_ms), text)
    if books is None:
        with suppress(TimeoutError):
            asyncio.run(_send(alerts, alert))
        return
    with suppress(LedgerError):  # the report of the audit matters more
        AlertBook(books).raise_all([alert], alerts.channels)


async def _send(alerts: Alerts, alert: Alert) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        await tell_at_once(alerts, alert)
