"""Alerts as JSON, and an audit that raises one."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from gateway.admin import views
from gateway.config import Billing, Config
from gateway.ledger import Alert, AlertView, AuditReport, Books, LedgerError

LATEST: Final = 20
"""Alerts that are listed, so that they fit on a screen."""


def describe_alert(alert: AlertView) -> dict[str, object]:
    members = ("created_ms", "next_try_ms", "attempts", "delivered_ms", "reason")
    return views.describe(alert, "id", "channel", "kind", "text", *members)


def find_low_balance_nano(books: Books, account_id: int, billing: Billing) -> int | None:
    """Return the threshold of an account: its own, or else the configuration's."""
    own_nano = books.alerts.read_hook(account_id).low_balance_nano
    return billing.low_balance_nano if own_nano is None else own_nano


def run_audit(books: Books, config: Config) -> AuditReport:
    """Run the full audit; raise an alert if the books do not add up."""
    at_ms = books.clock()
    report = books.audit()
    if not report.ok:
        text = f"The audit found that the books do not add up: {len(report.problems)} problems."
        alert = Alert("audit_mismatch", "audit", str(at_ms), text)
        with suppress(LedgerError):  # the report matters more
            books.alerts.raise_all([alert], config.alerts.channels)
    return report
