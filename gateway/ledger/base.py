"""The contract of a serving ledger: its protocol and records.

Hold, confirm, settle. `hold` checks and reserves in one synchronous step, so no two requests of a
process pass on the same money; it decides by what this process knows. `confirm` decides by what is
known to all processes that serve from the ledger, before the request goes to a provider. `settle`
queues the charge (or the void) synchronously and returns an awaitable that ends once it is committed;
the caller's last bytes wait for it. Confirm and settle are done at most once per hold.

    pending ── settle(a cost) ──> posted    (one charge entry, unique per request)
            ── settle(no cost) ─> voided    (no entry)
            ── confirm declines   (no row)

In memory `Account.balance_nano` is *assigned* from what was committed, never subtracted from, and
`Account.held_nano` is the sum of the unsettled holds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from gateway.ledger.alert_records import Counts
from gateway.ledger.call_records import Outcome, Receipt, Spent
from gateway.ledger.key_records import Budget, EndedKey, KeyTerms, Rate, Terms
from gateway.money import Tokens
from gateway.prices import AppliedPrice


@dataclass(slots=True, eq=False, weakref_slot=True)
class Account:
    """An account in the memory of a serving process; only the ledger writes to it."""

    id: int
    name: str
    suspended: bool
    balance_nano: int
    held_nano: int = 0
    unheld_nano: int = 0
    """The amount that requests in flight may cost beyond their holds."""
    terms: Terms = Terms()  # noqa: RUF009 - it is frozen
    """Replaced when they change; else the same object."""

    @property
    def available_nano(self) -> int:
        return self.balance_nano - self.held_nano


@dataclass(slots=True, eq=False, weakref_slot=True)
class Line:
    """A key and all that it was rotated to: they share one cap, so what they spend counts together."""

    id: str
    """That of the first of them."""
    spent_nano: int = 0
    held_nano: int = 0
    unheld_nano: int = 0


@dataclass(slots=True, eq=False, weakref_slot=True)
class Key:
    """A key in that memory, without the secret; only the ledger writes to it."""

    id: str
    account: Account
    terms: KeyTerms
    """Replaced when they change; else the same object."""
    line: Line
    revoked_ms: int | None = None
    budget: Budget | None = None

    @property
    def spent_nano(self) -> int:
        return self.line.spent_nano

    @property
    def held_nano(self) -> int:
        return self.line.held_nano

    def is_live(self, now_ms: int) -> bool:
        """Return whether the key is neither revoked nor expired, like `KeyView.status`."""
        return self.revoked_ms is None and not self.terms.has_expired(now_ms)

    def allows(self, model: str) -> bool:
        """Return whether both the key and its account may use the model."""
        own, account = self.terms.models, self.account.terms.models
        return (own is None or model in own) and (account is None or model in account)


@dataclass(slots=True)
class Admission:
    """The facts of a request when its hold is taken.

    This and the settlement are made for every request; to freeze them would cost 2 µs of it.
    """

    request_id: str
    """Ids sort by the time of the request, see `request_ids`."""
    model: str
    provider: str
    price: AppliedPrice
    hold_nano: int
    """The expected cost; once the hold is taken, the amount that was."""
    stream: bool
    started_ms: int
    """Wall clock, Unix milliseconds."""
    key_rate: Rate | None = None
    """The limits of the key; None if it has none."""
    account_rate: Rate | None = None
    """The limits of the account; None if it has none."""
    expected_tokens: int = 0
    """The count for the rates until the settlement tells the true one, which is 0 for a void."""
    full_nano: int = 0
    """The most that it may cost: it counts as spoken for, whatever is held of it."""
    full_below_nano: int = 0
    """Where less than this is left, `full_nano` is held."""


@dataclass(slots=True)
class Settlement:
    """The end of a request. A cost of 0 and an outcome other than complete mean a void."""

    outcome: Outcome
    provider: str
    attempts: int
    status: int
    """The status the caller got; 200 for a stream that broke later."""
    tokens: Tokens
    tool_calls: Mapping[str, int]
    """Calls of the provider's tools, by name."""
    price: AppliedPrice
    """The price that applied: `cost_nano` is computed from it."""
    cost_nano: int
    estimated: bool
    first_byte_ms: int | None
    """Time from admission to the caller's first byte; None if there was none."""
    ended_ms: int
    """Wall clock, Unix milliseconds."""
    withdraw_if_late: bool
    """Whether a charge that cannot be committed in time becomes a void: nothing was delivered."""
    provider_cost_nano: int | None = None
    """The provider's bill for it by its tokens and the configured cost; None if that is unknown."""
    reported_cost_nano: int | None = None
    """The amount that the provider says it charged, if it does."""

    @property
    def is_posted(self) -> bool:
        """Return True for a charge (0 for a free model), False for a void."""
        return self.cost_nano != 0 or self.outcome == "complete"


@dataclass(slots=True, eq=False)
class Hold:
    """Money set aside for one request in flight; only the ledger writes to it."""

    admission: Admission
    account: Account
    key: Key
    amount_nano: int
    """The hold, raised to the true cost as soon as that is known."""
    resolved: bool = False
    """True when nothing is held any more: the settlement is committed, or it failed for good."""
    budget: Budget | None = None
    """The key's budget when the hold was taken; this one is charged."""
    unheld_nano: int = 0
    """The amount that the request may cost beyond the hold."""


class Ledger(Counts, Protocol):
    """Accounts, keys, holds and charges of one serving process, on one event loop."""

    @property
    def writable(self) -> bool:
        """Return False while commits fail (disk full, read-only, I/O error): admit nothing."""

    @property
    def open_holds(self) -> int:
        """Return the number of holds whose settlement is not committed."""

    @property
    def log_bytes(self) -> int:
        """Return the size of the log of recent commits, as it was a moment ago; 0 if it lies elsewhere."""

    def clock(self) -> int:
        """Return the time in Unix milliseconds, which is the same for all that serve from the ledger."""

    def find_key(self, digest: bytes) -> Key | None:
        """Look a live key up in memory; one that ended is found for a while, see `Key.is_live`."""

    async def read_ended_key(self, digest: bytes) -> EndedKey | None:
        """Return when a key that is not in memory ended; None if there never was one.

        Raises LedgerUnavailable if the ledger cannot be read.
        """

    def accounts(self) -> Iterable[Account]:
        """Return all accounts from memory."""

    def budgets(self) -> Iterable[Budget]:
        """Return the budgets of all keys in memory."""

    def hold(self, key: Key, admission: Admission) -> Hold:
        """Check and reserve in one synchronous step, and queue the request's row.

        Raises:
            ValueError: the hold is negative.
            InsufficientBalance: the balance is not positive, or the key's cap or budget is spent.
            BalanceHeld: the balance (or the rest of cap or budget) is positive but held by others.
            LedgerUnavailable: commits fail at the moment, or those of this account do.
        """

    async def confirm(self, hold: Hold) -> None:
        """Return once the hold is in force for every process that serves from this ledger.

        Await it once, before the request goes to a provider. It takes `COMMIT_SECONDS` at most. What
        a refusal goes by is in memory by then. The hold may be settled while this is under way, after
        which a refusal counts as a void.

        Raises InsufficientBalance, BalanceHeld, RateLimited, LedgerUnavailable, InternalError; then
        nothing is held any more, and there is nothing to settle.
        """

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        """Hold more, as the request has used more than was expected; less changes nothing."""

    async def wait_admitted(self, hold: Hold) -> None:
        """Return once the request's row is committed. Await it before the caller's first byte.

        Raises:
            LedgerUnavailable: the row could not be committed within `COMMIT_SECONDS`.
            InternalError: the ledger refused this row for good.
        """

    def settle(self, hold: Hold, settlement: Settlement) -> Awaitable[None]:
        """Queue the charge or the void, in this call; awaiting the result waits for the commit.

        The hold is raised to the charge at once and dropped when it is committed. Nobody has to
        await the result, and cancelling the wait does not cancel the charge. A second call changes
        nothing; its result ends as the first one's does.

        Awaiting raises LedgerUnavailable if the commit takes longer than `COMMIT_SECONDS`. A charge
        with `withdraw_if_late` is then voided; any other stays queued until commits work again.
        Awaiting raises InternalError if the ledger refused this request for good.
        """

    async def wait_ended(self) -> None:
        """Return when nothing will be committed any more; unless it was closed, that is a bug.

        Raises LedgerError if another process has taken this one for dead.
        """

    async def refresh(self) -> None:
        """Return once everything that others have committed so far is in force here."""

    async def read_receipt(self, request_id: str) -> Receipt | None:
        """Return the receipt of a request, or None if there is no request of that id.

        A request that is in flight, or whose end cannot be committed at present, is pending.
        Raises LedgerUnavailable if the ledger cannot be read.
        """

    async def read_spent(self, key: Key, today: int) -> Spent:
        """Return what a key was charged; `today` is counted in UTC days from the epoch.

        Raises LedgerUnavailable if the ledger cannot be read.
        """


COMMIT_SECONDS: Final = 5
"""How long a caller waits for a commit before it gets an error: a commit takes milliseconds."""
