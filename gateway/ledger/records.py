"""A ledger's errors and location; records of accounts, entries, events and audits.

A ledger is in a file of SQLite or in a database of an extra. Views are copies: changing one
changes nothing in the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from gateway.ledger.key_records import Terms


class LedgerError(Exception):
    """The ledger cannot be opened or used; the text names the file or database and what to do."""


class LedgerMissing(LedgerError):
    """No database at this location yet; one could be made there."""


class LedgerLocked(LedgerError):
    """Another process serves from this database."""


class FilesLost(LedgerError):
    """The file in use was removed or replaced. Further writes to it may be lost."""


class LedgerMismatch(LedgerError):
    """The audit found that balances and entries disagree, so the ledger must not be served from."""


class Refused(Exception):
    """A verb refuses to act; the text says what and why.

    For programs, `code` gives the reason in one word and `field` the name of the wrong input, if any.
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


EntryKind = Literal["credit", "code", "card", "charge", "correction"]


@dataclass(frozen=True, slots=True)
class Actor:
    """The person or process that acts, and its address.

    The name is an account's, `token NAME` or `cli (alice)`.
    """

    name: str
    address: str | None = None


@dataclass(frozen=True, slots=True)
class NodeView:
    """A process that serves from the ledger beside others."""

    host: str
    pid: int
    version: str
    since_ms: int
    seen_ms: int
    """The time of its last sign of life."""


MAX_INTEGER: Final = 2**63 - 1
"""The largest integer that the ledger stores: those of both databases have 64 bits, one for the sign."""
MOST_SPENT_NANO: Final = 8 * 10**18
"""The most that a line of keys without a cap may spend: its sum has to fit the integers of both
databases."""

CLI: Final = Actor("cli")
SYSTEM: Final = Actor("system")
"""The actor of what a serving process does by itself."""
FIRST_START: Final = Actor("first start")
OTHER_ACTORS: Final = (CLI.name, "cli (", SYSTEM.name, FIRST_START.name, "nobody", "stripe")
"""Names in events of actors that are no accounts, so no new account may have one. `nobody` failed to sign
in, `stripe` is the provider of card payments, and after `cli (` comes a user of the machine."""


SCRIPT_ACTOR: Final = "token "
"""The beginning of the name by which events tell a script's token from an account. It stays in events, so no
account's name may begin like that."""


@dataclass(frozen=True, slots=True)
class StoredSecret:
    """The stored part of a new key or code. Ids of codes sort by time."""

    id: str
    digest: bytes = field(repr=False)
    last4: str


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

    @property
    def available_nano(self) -> int:
        return self.balance_nano - self.held_nano


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
    is_repeated: bool = field(default=False, compare=False)
    """Whether an earlier call with the same idempotency key posted the entry, and this call nothing."""


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
    """The number of entries proven: all, or those since the last checkpoint."""
    pending: int = 0
    interrupted: int = 0
    """All requests that crashes have interrupted."""
    unsettled: int = 0
    """Interrupted requests that no correction names."""
    to_settle: tuple[InterruptedView, ...] = ()
    """The newest of the unsettled, from a full audit."""


@dataclass(frozen=True, slots=True)
class EventView:
    """A logged action other than a request."""

    id: int
    at_ms: int
    actor: str
    action: str
    account: str | None
    """The name of the account it concerns."""
    target: str | None
    detail: str
    address: str | None


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """The address of a database, perhaps with a password. An extra reads it."""

    value: str = field(repr=False)
    shown: str = field(default="a database", compare=False)
    """The address without the password."""

    def __str__(self) -> str:
        return self.shown


Location = Path | DatabaseUrl
