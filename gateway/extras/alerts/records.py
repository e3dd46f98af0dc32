"""Records of alerts.

An alert is raised once for each occurrence and channel, and then queued until it is delivered. A lasting
problem, such as a failing provider, is also kept as a condition until it ends.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import orjson

from gateway.admin.fields import Fields
from gateway.base.times import format_iso, format_moment

if TYPE_CHECKING:
    from gateway.config.records import Config
    from gateway.ledger.sql.books import Books

AlertKind = Literal[
    "low_balance",
    "budget",
    "provider_failing",
    "key_not_renewed",
    "missing_usage",
    "ledger_unwritable",
    "old_backup",
    "audit_mismatch",
    "password_changed",
    "totp_changed",
    "payment_refunded",
    "payment_disputed",
    "payment_refused",
    "switched_off",
    "test",
]
AlertState = Literal["raised", "ended"]
Channel = Literal["webhook", "command", "holder"]

ID_BYTES: Final = 12
"""Random bytes of an id: alerts are few, and a receiver compares ids with its own alone."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One occurrence. Its text contains no secret and nothing from prompts or replies."""

    kind: AlertKind
    subject: str
    """A provider, an account, a budget: what `text` is about."""
    occurrence: str
    """Distinguishes it from other alerts of the same kind and subject."""
    text: str
    account_id: int | None = None
    """The account whose holder gets the alert, too."""
    state: AlertState = "raised"

    @property
    def key(self) -> tuple[str, str, str]:
        """The occurrence of an alert that is raised only once."""
        return self.kind, self.subject, self.occurrence


@dataclass(frozen=True, slots=True)
class Problems:
    """Lasting problems of a kind, see `AlertBook.follow`."""

    standing: Mapping[str, str]
    ended: Mapping[str, str]
    unknown: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Lasting:
    """Lasting problems that another extra knows of; its `Extra.adds_to` returns this."""

    kind: AlertKind
    find: Callable[[Books, Config], Problems]


@dataclass(frozen=True, slots=True)
class Hook:
    """A holder's choices about alerts."""

    url: str | None
    secret: str | None = field(repr=False)
    low_balance_nano: int | None


@dataclass(frozen=True, slots=True)
class Due:
    """An alert to be delivered now."""

    id: str
    channel: Channel
    account_id: int | None
    body: str
    created_ms: int
    attempts: int
    hook: Hook | None
    """The holder's webhook, if the alert goes to a holder."""


@dataclass(frozen=True, slots=True)
class AlertView:
    """A queued, delivered or abandoned alert."""

    id: str
    channel: Channel
    kind: AlertKind
    text: str
    created_ms: int
    next_try_ms: int | None
    attempts: int
    delivered_ms: int | None
    reason: str | None
    """Why the last try failed."""


def make_alert_id() -> str:
    """Return a new id, by which a receiver recognises repeated deliveries."""
    return f"alert_{os.urandom(ID_BYTES).hex()}"


def write_alert(alert: Alert, alert_id: str, account: str | None, now_ms: int) -> str:
    """Write the body that is sent: JSON on one line."""
    body = {
        "id": alert_id,
        "kind": alert.kind,
        "state": alert.state,
        "subject": alert.subject,
        "account": account,
        # A path in a variable may have bytes that are no UTF-8.
        "text": alert.text.encode("utf-8", "backslashreplace").decode(),
        "at": format_iso(now_ms),
    }
    return orjson.dumps(body).decode()


def _describe_delivery(alert: AlertView) -> str:
    if alert.delivered_ms is not None:
        return f"delivered {format_moment(alert.delivered_ms)}"
    word = "given up" if alert.next_try_ms is None else "waits"
    return f"{word}: {alert.reason}" if alert.reason else word


ALERT: Final = Fields[AlertView](
    *("id", "channel", "kind", "text", "created_ms", "next_try_ms", "attempts", "delivered_ms"),
    "reason",
    table=(
        ("RAISED UTC", "created_ms"),
        ("BY", "channel"),
        "kind",
        ("STATE", _describe_delivery),
        "text",
    ),
)
