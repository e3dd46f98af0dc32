"""Tell that the books do not add up: an audit queues it, and a start that it prevents sends it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from gateway.config.records import Config
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.delivery import tell_at_once
from gateway.extras.alerts.records import Alert
from gateway.extras.alerts.settings import Alerts
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books import Books

LIMIT_SECONDS: Final = 15.0
"""How long an alert may hold up the end of a start that failed: two tries."""


def tell(config: Config, text: str, at_ms: int, books: Books | None) -> None:
    """Queue the alert if the books are open, or else send it before the process ends."""
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
