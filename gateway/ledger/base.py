"""What a ledger is: the protocol, and the records that cross it. Nothing outside `ledger/` knows SQL.

Hold, then settle. `hold` is one synchronous step with its check, so no two requests pass on the
same money. `settle` queues the charge (or the void) synchronously and gives back a future that is
done once it is committed; the caller's last bytes wait for it. Both are at most once per hold.

    pending --settle(cost)--> posted      (one charge entry, unique per request)
            --void()--------> voided      (no entry)

The life of money in memory: `Account.balance_nano` is *assigned* from what was committed, never
subtracted from; `Account.held_nano` is the sum of the unsettled holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from gateway.money import Price, Tokens

Outcome = Literal[
    "pending",  # in flight
    "complete",  # the reply was made whole
    "caller_left",  # the caller went away
    "upstream_error",  # the provider failed, refused or broke off
    "upstream_timeout",  # a deadline of ours passed
    "rejected",  # the upstream found fault with the caller's request
    "ledger_error",  # the charge could not be written
    "shutdown",  # the gateway was stopped
    "internal_error",  # our fault
    "interrupted",  # the gateway died; found at the next start
]


class LedgerError(Exception):
    """The ledger cannot be opened or used as it is; the text names the file and what to do."""


class LedgerLocked(LedgerError):
    """Another process serves from this database."""


class LedgerMismatch(LedgerError):
    """The audit found that balances and entries disagree: nothing may be served from it."""


@dataclass(slots=True, eq=False)
class Account:
    """An account as the server knows it; the ledger alone writes to it."""

    id: int
    name: str
    suspended: bool
    balance_nano: int
    held_nano: int = 0

    @property
    def available_nano(self) -> int:
        return self.balance_nano - self.held_nano


@dataclass(slots=True, eq=False)
class Key:
    """A key as the server knows it (never the key itself); the ledger alone writes to it.

    `rpm`, `tpm` and `concurrency`: None means the default of `[limits]`, 0 means none.
    """

    id: str
    account: Account
    name: str
    models: frozenset[str] | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrency: int | None
    cap_nano: int | None
    expires_ms: int | None
    revoked_ms: int | None
    spent_nano: int = 0
    held_nano: int = 0

    def is_live(self, now_ms: int) -> bool:
        """Whether the key is neither revoked nor expired (a rotated key expires)."""
        return (self.revoked_ms is None or now_ms < self.revoked_ms) and (
            self.expires_ms is None or now_ms < self.expires_ms
        )


@dataclass(frozen=True, slots=True)
class Admission:
    """What is known of a request when its hold is taken."""

    request_id: str
    model: str
    provider: str
    price: Price
    hold_nano: int
    stream: bool
    started_ms: int
    """Wall clock, Unix milliseconds."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a request ended and what it used. `cost_nano` 0 with outcome other than complete voids."""

    outcome: Outcome
    provider: str
    attempts: int
    status: int
    """The status the caller got; 200 for a stream that broke later."""
    tokens: Tokens
    cost_nano: int
    estimated: bool
    first_byte_ms: int | None
    """From admission to the first byte for the caller; None when there was none."""
    ended_ms: int
    """Wall clock, Unix milliseconds."""

    @property
    def is_posted(self) -> bool:
        """Whether there is a charge (0 for a free model); otherwise the request is voided."""
        return self.cost_nano != 0 or self.outcome == "complete"


@dataclass(slots=True, eq=False)
class Hold:
    """Money set aside for one request in flight; the ledger alone writes to it."""

    admission: Admission
    account: Account
    key: Key
    amount_nano: int
    """The hold, raised to the true cost the moment that is known."""
    recorded: bool = False
    """Whether the request's row is in the database."""
    resolved: bool = False
    """Whether nothing is held any more: settled and committed, or failed."""
    settlement: Settlement | None = None
    admitted: asyncio.Future[None] | None = field(default=None, repr=False)
    """Who waits for the request's row; made on demand."""
    settled: asyncio.Future[None] | None = field(default=None, repr=False)
    """Who waits for the settlement; made by `settle`."""
    waiting_since_seconds: float = 0
    """When someone last began to wait, on the event loop's clock."""


@dataclass(frozen=True, slots=True)
class Correction:
    """What was put right of a request's charge afterwards, by hand."""

    amount_nano: int
    """Added to the balance; below 0 it was taken from it."""
    note: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What the ledger says of one request, for who made it."""

    request_id: str
    key_id: str
    state: Literal["pending", "posted", "voided"]
    outcome: Outcome
    model: str
    provider: str
    stream: bool
    price: Price
    hold_nano: int
    started_ms: int
    attempts: int | None = None
    """How many routes were tried; None where nobody knows: pending and interrupted requests."""
    status: int | None = None
    """None of pending and interrupted requests."""
    tokens: Tokens = field(default_factory=Tokens)
    cost_nano: int = 0
    estimated: bool = False
    first_byte_ms: int | None = None
    """From admission to the first byte for the caller."""
    ended_ms: int | None = None
    """Of an interrupted request: when it was found."""
    corrections: tuple[Correction, ...] = ()
    """The earliest first."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a key was charged for requests that ended in the last UTC days, today included."""

    today_nano: int
    week_nano: int
    """7 days."""
    month_nano: int
    """30 days."""


class Ledger(Protocol):
    """Accounts, keys, holds and charges. One instance per serving process, one event loop."""

    @property
    def writable(self) -> bool:
        """False while commits fail (disk full, read-only, I/O error): nothing may be admitted."""

    def find_key(self, digest: bytes) -> Key | None:
        """From memory; a revoked or expired key is still found, see `Key.is_live`."""

    def accounts(self) -> Iterable[Account]:
        """All accounts, from memory."""

    def hold(self, key: Key, admission: Admission) -> Hold:
        """Take a hold: check and reservation in one synchronous step, the row queued.

        Raises:
            InsufficientBalance: the balance is not positive, or the key's cap is spent.
            BalanceHeld: the balance (or the cap's rest) is positive but held by others.
            LedgerUnavailable: commits fail at the moment.
        """

    async def wait_admitted(self, hold: Hold) -> None:
        """Return once the request's row is committed: before the caller's first byte.

        Raises LedgerUnavailable when it could not be within `COMMIT_SECONDS`.
        """

    def settle(self, hold: Hold, settlement: Settlement) -> asyncio.Future[None]:
        """Queue the charge; the hold is raised to it at once and dropped when it is committed.

        The future is done once it is committed. It fails with LedgerUnavailable when that took
        longer than `COMMIT_SECONDS`; the charge of a stream stays queued until the ledger is
        back, that of a JSON reply (nothing was delivered) is withdrawn and its request voided.
        A second call changes nothing and gives the first one's future; a handler that is
        cancelled while it waits takes nothing back.
        """

    async def refresh(self) -> None:
        """Return once what others have committed until now is in force here."""

    async def read_receipt(self, request_id: str) -> Receipt | None:
        """What became of a request; None when there is none of that id.

        A request that is in flight, or whose end cannot be committed just now, is pending.
        Raises LedgerUnavailable when the ledger cannot be read.
        """

    async def read_spent(self, key: Key, today: int) -> Spent:
        """`today` is counted in days from the epoch, in UTC.

        Raises LedgerUnavailable when the ledger cannot be read.
        """


COMMIT_SECONDS: Final = 5
"""How long a caller waits for a commit before it is told that the ledger is out of order."""
