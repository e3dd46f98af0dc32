"""What the operator's side is given: views of rows, never rows; and what it is refused with."""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.ledger.batch import EntryKind
from gateway.money import Tokens


class Refused(Exception):
    """A verb was given something it cannot do; the text says what and why."""


class NotFound(Refused):
    """The file, account, key or request named is not there."""


class Conflict(Refused):
    """It was done before, in another way."""


@dataclass(frozen=True, slots=True)
class AccountView:
    id: int
    name: str
    operator: bool
    suspended: bool
    balance_nano: int
    held_nano: int
    """The holds of requests that are pending in the database."""
    created_ms: int


@dataclass(frozen=True, slots=True)
class KeyView:
    """Limits: None is the default of the configuration, 0 is none."""

    id: str
    account: str
    name: str
    display: str
    """`sk-ru-…a1b2`: enough to tell keys apart."""
    models: tuple[str, ...] | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrency: int | None
    cap_nano: int | None
    spent_nano: int
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None


@dataclass(frozen=True, slots=True)
class NewKey:
    key: KeyView
    secret: str = field(repr=False)
    """The key itself: shown once, kept nowhere."""


@dataclass(frozen=True, slots=True)
class EntryView:
    id: int
    account: str
    kind: EntryKind
    amount_nano: int
    balance_after_nano: int
    request_id: str | None
    note: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class AccountDetail:
    account: AccountView
    keys: tuple[KeyView, ...]
    entries: tuple[EntryView, ...]
    """The latest first."""


@dataclass(frozen=True, slots=True)
class UsageRow:
    group: str
    requests: int
    tokens: Tokens
    cost_nano: int


@dataclass(frozen=True, slots=True)
class InterruptedView:
    """A request that a crash cut off and no correction has settled."""

    request_id: str
    account: str
    model: str
    provider: str
    hold_nano: int
    """What it was expected to cost."""
    started_ms: int


@dataclass(frozen=True, slots=True)
class AuditReport:
    ok: bool
    accounts: int
    entries: int
    """How many were proven: all, or those since the last checkpoint."""
    pending: int
    interrupted: int
    """All that crashes ever cut off."""
    unsettled: int
    """Those of them that no correction names."""
    to_settle: tuple[InterruptedView, ...]
    """The newest of the unsettled, from a full audit."""
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KeyTerms:
    """What a key may do; the same for a new key and for the one that replaces it."""

    name: str
    models: tuple[str, ...] | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrency: int | None
    cap_nano: int | None
    expires_ms: int | None
