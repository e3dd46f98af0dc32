"""Records of keys and of what limits them: terms and limits. Budgets are in `budget_records`.

The API counts rates within its own process. A ledger that several processes share counts for all of
them, see `ServingLedger.confirm`. Both refuse in the same words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypedDict, get_args

from gateway.base.errors import RateLimited
from gateway.ledger.budget_records import BudgetStanding

Owner = Literal["key", "account"]


@dataclass(frozen=True, slots=True)
class Limits:
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
