"""The rates of keys and accounts: requests and tokens per minute as token buckets, and concurrency.

No I/O. A request is counted by its key and by the account above it, and either may refuse it. A
bucket holds the amount of one minute and refills evenly. A refusal says when the request will fit.
Times are seconds of a monotonic clock, passed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal
from weakref import WeakKeyDictionary

from gateway.config.records import Config
from gateway.dialects.wire.base import RateLimit
from gateway.ledger.base import Account, Key
from gateway.ledger.key_records import (
    LIMITS,
    Limits,
    Terms,
    refuse_concurrency,
    refuse_requests,
    refuse_tokens,
)

WINDOW_SECONDS: Final = 60.0
"""Seconds of a window: limits are per minute, as vendors state theirs."""
SHARE_WORDS: Final = "its share of what the gateway takes at once"
"""The meaning of the concurrency of an account that has no limit of its own."""


class Bucket:
    """A token bucket of `limit` per minute, full at first. What is taken is subtracted from `level`."""

    __slots__ = ("_at", "level", "limit")

    def __init__(self, limit: int, now: float) -> None:
        self.limit = limit
        self.level = float(limit)
        """At the time of the last `wait_seconds`; below 0 when more was used than estimated."""
        self._at = now

    def wait_seconds(self, amount: float, now: float) -> float:
        """Refill; return the time until `amount` fits, 0 if it fits now. A full bucket takes any amount."""
        limit = self.limit
        # A request is dated by its arrival: others may have been counted while its body was parsed.
        if now > self._at:
            self.level = min(float(limit), self.level + (now - self._at) * limit / WINDOW_SECONDS)
            self._at = now
        # Otherwise an amount above the limit would never fit, and its caller would retry for ever.
        missing = min(amount, float(limit)) - self.level
        return missing * WINDOW_SECONDS / limit if missing > 0 else 0.0


@dataclass(slots=True)
class Rates:
    """How much of its rates a key or an account has used. A limit of 0 means unlimited."""

    owner: Literal["key", "account"] = "key"
    above: Rates | None = None
    """The account's rates, for a key."""
    terms: object = None
    """The terms that the limits were made from: if the terms change, the limits do."""
    defaults: object = None
    """The configuration that a key's limits were made from."""
    requests: Bucket | None = None
    tokens: Bucket | None = None
    concurrency: int = 0
    is_share: bool = False
    """The concurrency limit is the account's share of the gateway's, not its own."""
    rate: Limits | None = None
    """The limits given to the ledger, which may count for several processes; a mere share is left
    out."""
    in_flight: int = 0
    _buckets: tuple[tuple[Literal["requests", "tokens"], Bucket], ...] = ()
    """Those of the limits that are set."""
    _levels: tuple[Rates, ...] = field(init=False, repr=False)
    """This level and those above it."""

    def __post_init__(self) -> None:
        self._levels = (self,) if self.above is None else (self, self.above)

    def set_limits(self, limits: Limits, now: float) -> None:
        """Set the limits. The bucket of a changed limit starts full; requests in flight stay counted."""
        requests, tokens = limits.requests_per_minute, limits.tokens_per_minute
        self.requests = _renew(self.requests, requests, now)
        self.tokens = _renew(self.tokens, tokens, now)
        by_requests = () if self.requests is None else (("requests", self.requests),)
        by_tokens = () if self.tokens is None else (("tokens", self.tokens),)
        self._buckets = (*by_requests, *by_tokens)
        self.concurrency = limits.concurrency
        # A share concerns this process alone; limits given to the ledger count for all processes.
        own = 0 if self.is_share else limits.concurrency
        self.rate = Limits(requests, tokens, own) if requests or tokens or own else None

    def check(self, now: float) -> None:
        """Raise RateLimited if one more request exceeds a limit, here or above."""
        for level in self._levels:
            if level.concurrency and level.in_flight >= level.concurrency:
                most = (SHARE_WORDS,) if level.is_share else ()
                raise refuse_concurrency(level.owner, level.concurrency, *most)
            if level.requests is not None:
                wait = level.requests.wait_seconds(1, now)
                if wait > 0:
                    raise refuse_requests(level.owner, level.requests.limit, wait)

    def admit(self) -> None:
        """Count a request, here and above."""
        for level in self._levels:
            if level.requests is not None:
                level.requests.level -= 1
            level.in_flight += 1

    def release(self) -> None:
        """Note that a request counted by `admit` is over."""
        for level in self._levels:
            level.in_flight -= 1

    def take_tokens(self, estimate: int, now: float) -> None:
        """Count estimated tokens, here and above. If it raises RateLimited, nothing is counted."""
        for level in self._levels:
            if level.tokens is not None:
                wait = level.tokens.wait_seconds(estimate, now)
                if wait > 0:
                    raise refuse_tokens(level.owner, level.tokens.limit, estimate, wait)
        for level in self._levels:
            if level.tokens is not None:
                level.tokens.level -= estimate

    def correct_tokens(self, estimate: int, used: int) -> None:
        """Replace an estimate by the true count, here and above."""
        for level in self._levels:
            if level.tokens is not None:
                level.tokens.level -= used - estimate

    def list_limits(self, now: float) -> list[RateLimit]:
        """Return the limits in force. Where key and account both have one, the tighter counts."""
        limits: dict[str, RateLimit] = {}
        for level in self._levels:
            for name, bucket in level._buckets:  # noqa: SLF001 - of this class
                reset = bucket.wait_seconds(bucket.limit, now)
                remaining = max(0, int(bucket.level))
                if name not in limits or remaining < limits[name].remaining:
                    limits[name] = RateLimit(name, bucket.limit, remaining, reset)
        return list(limits.values())


class AllRates:
    """The rates of keys and accounts that made requests, as long as the ledger knows them."""

    __slots__ = ("_rates",)

    def __init__(self) -> None:
        self._rates: WeakKeyDictionary[Key | Account, Rates] = WeakKeyDictionary()

    def find(self, key: Key, config: Config, now: float) -> Rates:
        """Return the key's rates, and above them its account's, with the limits in force."""
        own = self._rates.get(key)
        account = key.account
        if (
            own is not None
            # Compared by identity: the memory makes new terms only when they change.
            and own.terms is key.terms
            and own.defaults is config
            and own.above is not None
            and own.above.terms is account.terms
        ):
            return own
        if (above := self._rates.get(account)) is None:
            above = self._rates[account] = Rates("account")
        if own is None:
            own = self._rates[key] = Rates("key", above)
        above.is_share = account.terms.concurrency is None
        for rates, terms, defaults in (
            (above, account.terms, config.account_limits),
            (own, key.terms, config.limits),
        ):
            rates.set_limits(find_limits(terms, defaults), now)
            rates.terms = terms
        own.defaults = config
        return own


def find_limits(terms: Terms, defaults: Limits) -> Limits:
    """Return the limits in force: the key's or account's own, or else the configuration's."""
    own = {name: limit for name in LIMITS if (limit := getattr(terms, name)) is not None}
    return replace(defaults, **own)


def _renew(bucket: Bucket | None, limit: int, now: float) -> Bucket | None:
    # A reload must not refill the buckets of limits that it leaves alone.
    if bucket is not None and bucket.limit == limit:
        return bucket
    return Bucket(limit, now) if limit else None
