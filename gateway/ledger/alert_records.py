"""Alerts: what operators and holders are told without asking. Records, and their part of the books.

An alert is raised once for each occurrence and channel, and then queued until it is delivered. What
stands for a while, such as a failing provider, is also kept as a condition until it ends.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

import orjson

from gateway.times import DAY_MS, format_iso

AlertKind = Literal[
    "low_balance",
    "budget",
    "provider_failing",
    "missing_usage",
    "ledger_unwritable",
    "old_backup",
    "audit_mismatch",
    "test",
]
AlertState = Literal["raised", "ended"]
Channel = Literal["webhook", "command", "holder"]

KEPT_MS: Final = 31 * DAY_MS
"""How long alerts are kept after they were raised, to be looked up."""
ID_BYTES: Final = 12
"""Random bytes of an id: alerts are few, and a receiver compares ids with its own alone."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One occurrence; its text names no secret and nothing that was said to a model."""

    kind: AlertKind
    subject: str
    """A provider, an account, a budget: what `text` is about."""
    occurrence: str
    """Tells it from other alerts of the same kind and subject."""
    text: str
    account_id: int | None = None
    """The account whose holder is told, too."""
    state: AlertState = "raised"

    @property
    def key(self) -> tuple[str, str, str]:
        """The same for what is raised only once."""
        return self.kind, self.subject, self.occurrence


@dataclass(frozen=True, slots=True)
class Hook:
    """A holder's choices."""

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
    """Where the holder wants it, if it goes to one."""


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
    """Return a new id, by which a receiver knows what it has seen before."""
    return f"alert_{os.urandom(ID_BYTES).hex()}"


def write_alert(alert: Alert, alert_id: str, account: str | None, now_ms: int) -> str:
    """Write what is sent: JSON on one line."""
    body = {
        "id": alert_id,
        "kind": alert.kind,
        "state": alert.state,
        "subject": alert.subject,
        "account": account,
        "text": alert.text,
        "at": format_iso(now_ms),
    }
    return orjson.dumps(body).decode()


class Alerts(Protocol):
    """The part of the books. `channels` are those of the operator that are configured."""

    def raise_all(self, alerts: Sequence[Alert], channels: Collection[Channel]) -> None:
        """Queue those that were not raised before, to the operator and to the holder's webhook."""

    def raise_test(self, account_id: int | None, channels: Collection[Channel]) -> None:
        """Queue a test: to the holder of the account, or to the operator."""

    def follow(
        self,
        kind: AlertKind,
        standing: Mapping[str, str],
        ended: Mapping[str, str],
        channels: Collection[Channel],
        unknown: Collection[str] = (),
    ) -> None:
        """Raise what stands and was not told yet; tell the end of what was told and has ended.

        Both are texts by subject; an end with the text "" is not told. Subjects that this process
        cannot judge are `unknown`: they stay as they are. What is in none of them is forgotten.
        """

    def follow_balances(
        self, default_nano: int | None, currency: str, channels: Collection[Channel]
    ) -> None:
        """Raise an alert for each account that fell below its threshold since it was last above."""

    def read_due(self, limit: int) -> list[Due]:
        """Return what is due, those of each receiver in turn."""

    def claim(self, alert_ids: Sequence[str], until_ms: int) -> set[str]:
        """Take alerts that are due, so that nobody else has them due before a time.

        Return those that were taken; the others were taken by another process.
        """

    def note_delivered(self, alert_id: str) -> None: ...

    def note_failure(self, alert_id: str, reason: str, next_try_ms: int | None) -> None:
        """Keep why a try failed, and when the next one is; None: it was the last.

        It changes nothing if another process delivered the alert meanwhile.
        """

    def read_latest(self, limit: int, account_id: int | None = None) -> list[AlertView]:
        """Return the latest alerts to the operator, or to an account's holder."""

    def read_hook(self, account_id: int) -> Hook: ...
    def set_hook(self, account_id: int, hook: Hook) -> None: ...
