"""What the operator's side is given: views of rows, never rows; and what it is refused with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypedDict

from gateway.ledger.base import Outcome
from gateway.ledger.batch import EntryKind
from gateway.money import Tokens


class Refused(Exception):
    """A verb was given something it cannot do; the text says what and why.

    For programs, `code` says it in a word, and `field` names what was given wrong, if one thing was.
    """

    word = "refused"

    def __init__(self, text: str, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__(text)
        self.code = code or ("invalid_field" if field else self.word)
        self.field = field


class NotFound(Refused):
    """The file, account, key or request named is not there."""

    word = "not_found"


class Conflict(Refused):
    """It was done before, in another way."""

    word = "conflict"


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
class SessionView:
    """Someone signed in to the console; its token is known to the browser alone."""

    id: str
    account: AccountView
    opened_by: Literal["password", "link"]
    device: str
    """Such as `Firefox on Linux`."""
    address: str
    created_ms: int
    last_seen_ms: int
    expires_ms: int


KeyStatus = Literal["active", "cap_spent", "expired", "revoked"]


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
    last_used_ms: int | None
    """When a request was last charged to it."""
    replaced_by: str | None
    """The key that it was rotated to."""

    def status(self, now_ms: int) -> KeyStatus:
        if self.revoked_ms is not None:
            return "revoked"
        if self.expires_ms is not None and self.expires_ms <= now_ms:
            return "expired"
        if self.cap_nano is not None and self.spent_nano >= self.cap_nano:
            return "cap_spent"
        return "active"


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
class EntryFilter:
    account_id: int
    kind: EntryKind | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    """Exclusive."""


@dataclass(frozen=True, slots=True)
class EntryRun:
    """Some entries in a row, the latest first."""

    entries: tuple[EntryView, ...]
    next_id: int | None
    """Older ones are looked for below this one; None when there are none."""


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Days are those in which a call began, counted from the epoch in UTC; both are inclusive."""

    account_id: int
    request_id: str | None = None
    key_id: str | None = None
    model: str | None = None
    first_day: int | None = None
    last_day: int | None = None


@dataclass(frozen=True, slots=True)
class CallView:
    """One request and what became of it; never what was said in it."""

    request_id: str
    started_ms: int
    ended_ms: int | None
    model: str
    provider: str
    """Who served it, or is asked just now."""
    key_id: str
    key_name: str
    key_display: str
    state: Literal["pending", "posted", "voided"]
    outcome: Outcome
    status: int | None
    stream: bool
    tokens: Tokens
    cost_nano: int
    estimated: bool
    first_byte_ms: int | None
    """From admission to the first byte for the caller."""

    @property
    def total_ms(self) -> int | None:
        """None while it is pending; 0 when the clock was set back meanwhile."""
        return None if self.ended_ms is None else max(self.ended_ms - self.started_ms, 0)


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


class KeyChanges(TypedDict, total=False):
    """What of a key's terms is to change; None clears."""

    name: str
    models: tuple[str, ...] | None
    cap_nano: int | None
    expires_ms: int | None


@dataclass(frozen=True, slots=True)
class StandingView:
    """An account as the operator sees it in a list."""

    account: AccountView
    spent_nano: int
    """On the last days that were asked for."""
    keys: int
    """That work now."""
    last_used_ms: int | None
    has_password: bool


@dataclass(frozen=True, slots=True)
class EventView:
    """Something that was done, apart from requests."""

    id: int
    at_ms: int
    actor: str
    action: str
    account: str | None
    """Whom it concerns."""
    target: str | None
    detail: str
    address: str | None
