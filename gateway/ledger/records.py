"""Records and errors of the operator's books that several parts share.

Views are copies: changing one changes nothing in the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.ledger.base import Outcome
from gateway.ledger.key_records import KeyView, Terms
from gateway.money import Tokens
from gateway.times import DAY_MS


class Refused(Exception):
    """A verb cannot do what it was asked; the text tells people what and why.

    For programs, `code` is the reason in one word and `field` the name of the wrong input, if
    there is one.
    """

    word = "refused"

    def __init__(self, text: str, *, code: str | None = None, field: str | None = None) -> None:
        super().__init__(text)
        self.code = code or ("invalid_field" if field else self.word)
        self.field = field


class NotFound(Refused):
    """The file, account, key, session or request does not exist."""

    word = "not_found"


class Conflict(Refused):
    """Conflicts with something already done or stored."""

    word = "conflict"


class OtherRequest(Conflict):
    """The idempotency key was used for another request."""


EntryKind = Literal["credit", "code", "charge", "correction"]


@dataclass(frozen=True, slots=True)
class Actor:
    """The one who acts: an account's name or `cli`, and the address it acts from."""

    name: str
    address: str | None = None


MAX_INTEGER: Final = 2**63 - 1
"""The largest integer that the ledger stores."""

CLI: Final = Actor("cli")


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """The stored part of a new key or code. Ids of codes sort by time."""

    id: str
    digest: bytes = field(repr=False)
    last4: str


@dataclass(frozen=True, slots=True)
class RepeatableRequest:
    """The identity of a request that may be repeated."""

    account_id: int
    route: str
    idempotency_key: str
    request: bytes
    """SHA-256 of the request's body."""


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply as it was first given."""

    status: int
    reply: bytes


@dataclass(frozen=True, slots=True)
class AccountView:
    id: int
    name: str
    operator: bool
    suspended: bool
    balance_nano: int
    held_nano: int
    """The holds of pending requests."""
    created_ms: int
    terms: Terms


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
    """The end; it is exclusive."""


@dataclass(frozen=True, slots=True)
class EntryRun:
    """Consecutive entries, the latest first."""

    entries: tuple[EntryView, ...]
    next_id: int | None
    """The next run is below this id; None at the end."""


@dataclass(frozen=True, slots=True)
class CallFilter:
    """A filter for calls by the UTC day they began, counted from the epoch; both are inclusive."""

    account_id: int
    request_id: str | None = None
    key_id: str | None = None
    model: str | None = None
    first_day: int | None = None
    last_day: int | None = None


@dataclass(frozen=True, slots=True)
class CallView:
    """One request and its end, without prompt and completion; a call in the console's JSON."""

    request_id: str
    started_ms: int
    ended_ms: int | None
    model: str
    provider: str
    """The provider that served it or is serving it."""
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
    """Time from admission to the caller's first byte."""

    @property
    def total_ms(self) -> int | None:
        """Return None while it is pending; 0 if the clock was set back meanwhile."""
        return None if self.ended_ms is None else max(self.ended_ms - self.started_ms, 0)


@dataclass(frozen=True, slots=True)
class InterruptedView:
    """A request that a crash interrupted and no correction has settled."""

    request_id: str
    account: str
    model: str
    provider: str
    hold_nano: int
    """The cost that was expected."""
    started_ms: int


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of an audit. Counts are 0 where the file is too damaged to count."""

    ok: bool
    problems: tuple[str, ...] = ()
    accounts: int = 0
    entries: int = 0
    """The number that was proven: all, or those since the last checkpoint."""
    pending: int = 0
    interrupted: int = 0
    """All requests that crashes have interrupted."""
    unsettled: int = 0
    """Interrupted requests that no correction names."""
    to_settle: tuple[InterruptedView, ...] = ()
    """The newest of the unsettled, from a full audit."""


@dataclass(frozen=True, slots=True)
class StandingView:
    """An account as the operator sees it in a list."""

    account: AccountView
    spent_nano: int
    """Charges since the day that was asked for."""
    keys: int
    """Keys that work at present."""
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
    """The name of the account it concerns."""
    target: str | None
    detail: str
    address: str | None


OPERATOR_IDLE_MS: Final = 30 * 60_000
"""An operator's session ends when it was not used for this time: it can spend others' money."""
HOLDER_IDLE_MS: Final = 7 * DAY_MS
"""A holder's session ends when it was not used for this time: they look in once a week."""
SESSION_MS: Final = 30 * DAY_MS
"""The longest a session can last, however often it is used: a month."""

OpenedBy = Literal["password", "link"]


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session in the console; only the browser knows its token."""

    id: str
    account: AccountView
    opened_by: OpenedBy
    device: str
    """For example `Firefox on Linux`."""
    address: str
    created_ms: int
    last_seen_ms: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Opening:
    """A session about to be opened, apart from its account."""

    id: str
    digest: bytes = field(repr=False)
    device: str
    address: str
    replaces: str | None = None
    """The browser's earlier session, which ends."""
