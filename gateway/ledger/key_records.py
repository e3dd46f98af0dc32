"""Records of keys and of what limits them: terms, budgets in periods of the calendar, rates.

    key ── budget_id ──> budget <── budget_id ── request, from its hold on

A budget's sum is the cost of posted requests charged to it in one period. The transaction that posts a
request adds its cost, in the period of the commit; the first request of a period begins a new sum.
Nothing has to happen when a period ends: the sum of another period counts as 0. A request is charged to
the budget that its key had at the hold. Corrections change no budget.

The API counts rates within its own process. A ledger that several processes share counts for all of
them, see `ServingLedger.confirm`. Both refuse in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, Literal, TypedDict, assert_never, get_args

from gateway.base.errors import BudgetSpent, RateLimited
from gateway.base.money import format_amount
from gateway.base.times import DAY_MS, format_moment

Period = Literal["day", "week", "month"]

_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_A_MONTH: Final = 31
"""Days after the first of any month that certainly reach the next month."""


@dataclass(frozen=True, slots=True)
class Span:
    """One period, from its first midnight to the first midnight of the next."""

    starts_ms: int
    ends_ms: int
    """The end; it is exclusive."""

    @property
    def first_day(self) -> int:
        """Return the day of its start, counted from the epoch."""
        return self.starts_ms // DAY_MS

    def contains(self, at_ms: int) -> bool:
        return self.starts_ms <= at_ms < self.ends_ms


def find_span(period: Period, at_ms: int) -> Span:
    """Return the period in which a time lies."""
    return _find_span(period, at_ms // DAY_MS)


@lru_cache(maxsize=64)
def _find_span(period: Period, day: int) -> Span:
    """Cached: all settlements of a day are in the same three periods."""
    match period:
        case "day":
            first, following = day, day + 1
        case "week":
            first = day - date.fromordinal(_EPOCH_ORDINAL + day).weekday()
            following = first + 7
        case "month":
            begins = date.fromordinal(_EPOCH_ORDINAL + day).replace(day=1)
            ends = (begins + timedelta(days=_A_MONTH)).replace(day=1)
            first, following = (one.toordinal() - _EPOCH_ORDINAL for one in (begins, ends))
        case _:
            assert_never(period)
    return Span(first * DAY_MS, following * DAY_MS)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The most that may be spent in each period."""

    amount_nano: int
    period: Period


@dataclass(frozen=True, slots=True)
class Spending:
    """The spent sum of one period."""

    span: Span
    spent_nano: int


def make_spending(period: Period, first_day: int, spent_nano: int) -> Spending:
    return Spending(find_span(period, first_day * DAY_MS), spent_nano)


@dataclass(frozen=True, slots=True)
class BudgetStanding:
    """A budget in its present period."""

    id: int
    name: str | None
    """None if it is a key's own."""
    period: Period
    amount_nano: int
    spent_nano: int
    resets_ms: int
    """The end of the period."""

    @property
    def remaining_nano(self) -> int:
        # Requests may cost more than their holds, so a budget can be overspent.
        return max(self.amount_nano - self.spent_nano, 0)


@dataclass(frozen=True, slots=True)
class BudgetView(BudgetStanding):
    """A budget as the operator and its holder see it."""

    account: str
    keys: int
    """The number of live keys that spend from it."""
    created_ms: int


@dataclass(slots=True, eq=False, weakref_slot=True)
class Budget:
    """A budget in the memory of a serving process, shared by its keys; only the ledger writes to it."""

    id: int
    account_id: int
    name: str | None
    """None if it is a key's own."""
    allowance: Allowance
    spending: Spending
    """Replaced by what was committed."""
    held_nano: int = 0
    unheld_nano: int = 0

    @property
    def title(self) -> str:
        return "this key's budget" if self.name is None else f"the budget '{self.name}'"

    def find_spent_nano(self, now_ms: int) -> int:
        """Return what was spent in the present period."""
        # The sum of an earlier period stays until the first charge of the present period replaces it.
        spending = self.spending
        return spending.spent_nano if spending.span.contains(now_ms) else 0

    def is_spent(self, now_ms: int) -> bool:
        """Return whether nothing is left of the present period."""
        return self.find_spent_nano(now_ms) >= self.allowance.amount_nano

    def find_left_nano(self, now_ms: int) -> int:
        """Return how much is left in the present period, less the possible cost of requests in flight."""
        spoken_for_nano = self.find_spent_nano(now_ms) + self.held_nano + self.unheld_nano
        return self.allowance.amount_nano - spoken_for_nano

    def show(self, now_ms: int) -> BudgetStanding:
        """Show it in the present period, whichever its sum is of."""
        span = find_span(self.allowance.period, now_ms)
        spent_nano = self.spending.spent_nano if self.spending.span == span else 0
        terms = (self.allowance.period, self.allowance.amount_nano)
        return BudgetStanding(self.id, self.name, *terms, spent_nano, span.ends_ms)


class BudgetChanges(TypedDict, total=False):
    """Changes of a budget, with the new values."""

    name: str
    allowance: Allowance


def refuse_spent(budget: Budget, currency: str = "") -> BudgetSpent:
    """Make the refusal of a request whose budget is spent; the ledger knows no currency."""
    amount = f"{format_amount(budget.allowance.amount_nano)} {currency}".rstrip()
    resets = format_moment(budget.spending.span.ends_ms)
    return BudgetSpent(
        f"{budget.title[0].upper()}{budget.title[1:]} of {amount} a {budget.allowance.period} is"
        f" spent. It resets at {resets} UTC. Raise it or use another key."
    )


Owner = Literal["key", "account"]


@dataclass(frozen=True, slots=True)
class Rate:
    """The limits of a key or an account; 0 means unlimited."""

    requests_per_minute: int
    tokens_per_minute: int
    concurrency: int


def refuse_requests(owner: Owner, limit: int, wait_seconds: float) -> RateLimited:
    """Make the refusal of a request that comes too soon and will fit after the wait."""
    return RateLimited(
        f"This {owner} may make {limit} requests per minute. Try again in {wait_seconds:.1f} s.",
        retry_after_seconds=wait_seconds,
    )


def refuse_tokens(owner: Owner, limit: int, estimate: int, wait_seconds: float) -> RateLimited:
    """Make the refusal of a request with too many tokens, which will fit after the wait."""
    return RateLimited(
        f"This {owner} may use {limit} tokens per minute and this request takes about {estimate}."
        f" Try again in {wait_seconds:.1f} s.",
        kind="tokens",
        retry_after_seconds=wait_seconds,
    )


def refuse_concurrency(
    owner: Owner, limit: int, most: str = "as many as it may have at once"
) -> RateLimited:
    """Make the refusal of one request more in flight; `most` says what the limit stands for."""
    return RateLimited(
        f"This {owner} has {limit} requests in flight, {most}. Wait for one to finish."
    )


LimitName = Literal["requests_per_minute", "tokens_per_minute", "concurrency"]
LIMITS: Final[tuple[LimitName, ...]] = get_args(LimitName)
"""The limits in terms: 0 means no limit, None the configuration's default."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The limits and models of an account, for all its keys together; a key's own terms narrow them."""

    models: tuple[str, ...] | None = None
    """The only models that may be used; None allows all."""
    requests_per_minute: int | None = None
    """None means the default of `[limits]`, 0 no limit; likewise the next two."""
    tokens_per_minute: int | None = None
    concurrency: int | None = None

    def allows(self, model: str) -> bool:
        return self.models is None or model in self.models


@dataclass(frozen=True, slots=True)
class KeyTerms(Terms):
    """The terms of a key, wherever one is created, edited, shown or used."""

    name: str = ""
    cap_nano: int | None = None
    """The most it may ever spend; None means no cap."""
    expires_ms: int | None = None
    budget_id: int | None = None
    """The budget it spends from; several keys may share one."""

    def has_expired(self, now_ms: int) -> bool:
        """Return whether the expiry has passed. A rotated key's expiry is the end of its grace."""
        return self.expires_ms is not None and self.expires_ms <= now_ms


class TermChanges(TypedDict, total=False):
    """The terms of an account or a key to change, with their new values."""

    models: tuple[str, ...] | None
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrency: int | None


class KeyChanges(TermChanges, total=False):
    name: str
    cap_nano: int | None
    expires_ms: int | None
    budget_id: int | None


KeyStatus = Literal["active", "cap_spent", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class KeyView:
    """A key as the operator and its holder see it, without the secret."""

    id: str
    account: str
    display: str
    """`sk-ru-…a1b2`: enough to tell keys apart."""
    terms: KeyTerms
    spent_nano: int
    created_ms: int
    revoked_ms: int | None
    last_used_ms: int | None
    """The time of its last charge."""
    replaced_by: str | None
    """The id of the key that it was rotated to."""
    budget: BudgetStanding | None = None

    def status(self, now_ms: int) -> KeyStatus:
        if self.revoked_ms is not None:
            return "revoked"
        if self.terms.has_expired(now_ms):
            return "expired"
        if self.terms.cap_nano is not None and self.spent_nano >= self.terms.cap_nano:
            return "cap_spent"
        return "active"

    def is_unused(self, since_ms: int, now_ms: int) -> bool:
        """Return whether a live key is older than `since_ms` and was not used since."""
        used_ms = self.created_ms if self.last_used_ms is None else self.last_used_ms
        return used_ms <= since_ms and self.status(now_ms) in {"active", "cap_spent"}


@dataclass(frozen=True, slots=True)
class EndedKey:
    """The times at which a key was revoked and at which it expires."""

    revoked_ms: int | None
    expires_ms: int | None


@dataclass(frozen=True, slots=True)
class NewKey:
    key: KeyView
    secret: str = field(repr=False)
    """The key itself; it is shown once and stored nowhere."""
