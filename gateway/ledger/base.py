"""The records of a serving ledger: accounts and keys in memory, holds and their ends.

`serving.ledger.ServingLedger` has the operations on them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import orjson

from gateway.base.money import FREE, NONE, Tokens
from gateway.base.prices import AppliedPrice
from gateway.ledger.budget_records import Budget
from gateway.ledger.call_records import Outcome
from gateway.ledger.key_records import KeyTerms, Limits, Terms

if TYPE_CHECKING:  # it brings asyncio, which commands do without
    import asyncio


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
    """A key and all keys that replaced it by rotation. They share one cap, so their spending is summed."""

    id: str
    """The id of the line's first key."""
    spent_nano: int = 0
    held_nano: int = 0
    unheld_nano: int = 0


@dataclass(slots=True, eq=False, weakref_slot=True)
class Key:
    """A key in the memory of a serving process, without the secret; only the ledger writes to it."""

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
        expires_ms = self.terms.expires_ms
        return self.revoked_ms is None and (expires_ms is None or now_ms < expires_ms)

    def allows(self, model: str) -> bool:
        """Return whether both the key and its account may use the model."""
        own, account = self.terms.models, self.account.terms.models
        return (own is None or model in own) and (account is None or model in account)


@dataclass(slots=True)
class Admission:
    """The facts of a request when its hold is taken.

    Not frozen, like the settlement: every request makes both, and frozen ones take 2 µs more.
    """

    request_id: str
    """Ids sort by the time of the request, see `ids`."""
    model: str
    provider: str
    price: AppliedPrice
    hold_nano: int
    """The expected cost; once the hold is taken, the amount that was held."""
    stream: bool
    started_ms: int
    """Wall clock, Unix milliseconds."""
    key_rate: Limits | None = None
    """The limits of the key; None if it has none."""
    account_rate: Limits | None = None
    """The limits of the account; None if it has none."""
    expected_tokens: int = 0
    """The tokens that count for the rates until the settlement states the true number, 0 for a void."""
    full_nano: int = 0
    """The most that the request may cost. It counts as spoken for, however much is held."""
    full_below_nano: int = 0
    """If less than this is left, `full_nano` is held."""


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
    """The provider's price for the request by tokens and configured cost; None if unknown."""
    reported_cost_nano: int | None = None
    """The charge that the provider reports, if it reports any."""

    @property
    def is_posted(self) -> bool:
        """Return True for a charge (0 for a free model), False for a void."""
        return self.cost_nano != 0 or self.outcome == "complete"


def write_end(end: Settlement) -> dict[str, int | str | None]:
    """Write the columns of a request that its end sets, but for its time and its charge."""
    tokens, is_posted, extras = end.tokens, end.is_posted, None
    if tokens.media or end.tool_calls:
        told = {"media": dict(tokens.media), "tools": dict(end.tool_calls)}
        extras = orjson.dumps({name: counts for name, counts in told.items() if counts}).decode()
    return {
        "state": "posted" if is_posted else "voided",
        "provider": end.provider,
        "attempts": end.attempts,
        "outcome": end.outcome,
        "status": end.status,
        "input_tokens": tokens.input,
        "cached_input_tokens": tokens.cached_input,
        "cache_write_tokens": tokens.cache_write,
        "cache_write_1h_tokens": tokens.cache_write_1h,
        "output_tokens": tokens.output,
        "extras": extras,
        "cost_nano": end.cost_nano,
        "estimated": int(end.estimated),
        "first_byte_ms": end.first_byte_ms,
        "provider_cost_nano": end.provider_cost_nano if is_posted else None,
        "reported_cost_nano": end.reported_cost_nano if is_posted else None,
    }


_NOTHING: Final = Settlement(
    *("pending", "", 0, 0, Tokens(), NONE, AppliedPrice(FREE), 0),
    estimated=False,
    first_byte_ms=None,
    ended_ms=0,
    withdraw_if_late=False,
)
PENDING: Final = {**write_end(_NOTHING), "state": "pending", "status": None}
"""The columns of a request that its end sets, and their values until then; the provider is the admission's."""


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
    """The key's budget when the hold was taken, which is charged."""
    unheld_nano: int = 0
    """The amount that the request may cost beyond the hold."""
    settlement: Settlement | None = None
    recorded: bool = False
    """True when the request's row is committed."""
    raised: bool = False
    """True when the amount was raised since the last batch, and the database must know."""
    admitted: asyncio.Future[None] | None = field(default=None, repr=False)
    """Done when the request's row is committed; made when somebody first waits for it."""
    settled: asyncio.Future[None] | None = field(default=None, repr=False)
    """Done when the settlement is committed; made by `settle`."""
    waiting_since_seconds: float = 0
    """When somebody began to wait for the next step, on the event loop's clock."""


COMMIT_SECONDS: Final = 5
"""How long a caller waits for a commit before it gets an error: a commit takes milliseconds."""


Aside = Callable[..., object]
"""Writes what is no part of the books, given the connection and its `sql.database.InsertRows`."""
AsideEnd = Callable[[BaseException | None], None]
"""Gets None, or why it could not be written."""
