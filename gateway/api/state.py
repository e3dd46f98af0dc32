"""The state that all requests share, and the record that each request carries."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from weakref import WeakKeyDictionary

from gateway.api.ended_keys import EndedKeys
from gateway.api.large_bodies import LargeBodies, Place, Result
from gateway.api.limits import Counting, Rates
from gateway.api.missing_usage import MissingUsages
from gateway.config.records import Config, Limits, Reload
from gateway.dialects.base import Caller
from gateway.ledger.base import Account, Key, Ledger
from gateway.ledger.call_records import Outcome
from gateway.ledger.key_records import Terms
from gateway.money import Tokens, format_amount
from gateway.upstream.attempt import Ticker
from gateway.upstream.routing import Routes


@dataclass(slots=True)
class Call:
    """One request: what is known of it, and what its log line says."""

    gateway: Gateway
    request_id: str
    dialect: Caller
    started: float
    """Monotonic seconds."""
    started_ms: int
    """Wall clock, Unix milliseconds."""
    surface: str = ""
    """The part of the application that the path belongs to."""
    key: Key | None = None
    rates: Rates | None = None
    balance_nano: int | None = None
    """The available balance when the hold was taken."""
    asked_model: str = ""
    """The model that was named, if that can be one; `model` is one that the caller may use."""
    model: str = ""
    provider: str = ""
    attempts: int = 0
    failed: str = ""
    """The routes that failed, each with its cause."""
    stream: bool = False
    outcome: Outcome | None = None
    status: int | None = None
    """The status in the ledger: what the caller got, or would have got if it had stayed."""
    error_code: str | None = None
    """The code of an error reply, see `observations.find_code`."""
    tokens: Tokens = field(default_factory=Tokens)
    cost_nano: int = 0
    estimated: bool = False
    first_byte_ms: int | None = None
    waited_seconds: float = 0.0
    """The time in which the caller's body, or a provider, was waited for."""
    held_bytes: int = 0
    """The request's part of its account's `Share`."""
    reply_bytes: int = 0
    """The reply's part of `held_bytes`."""
    console: Mapping[str, str] = field(default_factory=dict)
    """For the log line of a console request: method, template of the path, address of the visitor."""

    async def run_at(self, place: Place, function: Callable[[], Result]) -> Result:
        """Call a function where it takes nobody's time, as a share of the account's."""
        if place is Place.NOW:
            return function()
        owner = None if self.key is None else self.key.account.id
        return await self.gateway.large_bodies.run(function, place, owner)

    def note_failure(self, route: str, cause: str) -> None:
        """Note that a route did not serve the request."""
        self.failed += f"{'; ' if self.failed else ''}{route}: {cause}"

    def note_first_byte(self) -> None:
        """Note that the caller's first byte leaves now; later calls change nothing."""
        if self.first_byte_ms is None:
            self.first_byte_ms = int((time.monotonic() - self.started) * 1000)


@dataclass(slots=True, eq=False)
class Share:
    """The bytes that the requests and replies of one account take in memory."""

    held_bytes: int = 0
    ahead: Call | None = None
    """The request whose reply is read to its end although the share is full."""


@dataclass(slots=True, eq=False, repr=False)
class Gateway:
    """The state that all requests share; `in_flight` and `held_bytes` count admitted requests."""

    config: Config
    ledger: Ledger
    routes: Routes
    ticker: Ticker
    log_call: Callable[[Call, int], None]
    in_flight: int = 0
    held_bytes: int = 0
    """The bytes of bodies and replies in memory, see `memory`."""
    shares: dict[int, Share] = field(default_factory=dict)
    """By account id: its part of `held_bytes`, if it has any."""
    large_bodies: LargeBodies = field(default_factory=LargeBodies)
    counting: Counting = field(default_factory=Counting)
    rates: WeakKeyDictionary[Key | Account, Rates] = field(default_factory=WeakKeyDictionary)
    """The use of each key and account that asked for something, for as long as the ledger has it."""
    draining: bool = False
    missing_usages: MissingUsages = field(default_factory=MissingUsages)
    ended_keys: EndedKeys = field(default_factory=EndedKeys)
    last_reload: Reload | None = None
    """How the configuration was last read again; None: not since the start."""

    def go_by(self, config: Config, routes: Routes) -> None:
        """Serve by another configuration from now on; requests in flight keep what they began with."""
        before, self.config, self.routes = self.routes, config, routes
        before.close(but=routes)

    def close(self) -> None:
        """Close what is open to the outside, at the very end."""
        self.routes.close()
        self.large_bodies.close()

    def find_rates(self, key: Key, now: float) -> Rates:
        """Return the key's rates, and above them its account's, with the limits in force."""
        rates = self.rates.get(key)
        if (
            rates is not None
            and rates.terms is key.terms
            and rates.defaults is self.config
            and rates.above is not None
            and rates.above.terms is key.account.terms
        ):
            return rates
        return self._renew_rates(key, now)

    def _renew_rates(self, key: Key, now: float) -> Rates:
        account, config = key.account, self.config
        if (above := self.rates.get(account)) is None:
            above = self.rates[account] = Rates("account")
        if (own := self.rates.get(key)) is None:
            own = self.rates[key] = Rates("key", above)
        above.is_share = account.terms.concurrency is None
        for rates, terms, defaults in (
            (above, account.terms, config.account_limits),
            (own, key.terms, config.limits),
        ):
            rates.set_limits(**asdict(find_limits(terms, defaults)), now=now)
            rates.terms = terms
        own.defaults = config
        return own


def make_headers(call: Call) -> Mapping[str, str]:
    """Make the headers that every reply to this request carries."""
    headers = dict(call.dialect.reply_headers(call.request_id))
    if call.rates is not None and (limits := call.rates.list_limits(time.monotonic())):
        headers.update(call.dialect.limit_headers(limits, call.started_ms))
    if call.balance_nano is not None:
        headers["x-gateway-balance"] = format_amount(call.balance_nano)
    return headers


def find_limits(terms: Terms, defaults: Limits) -> Limits:
    """Return the limits in force: the key's or account's own, or else the configuration's."""
    return Limits(
        requests_per_minute=_first(terms.requests_per_minute, defaults.requests_per_minute),
        tokens_per_minute=_first(terms.tokens_per_minute, defaults.tokens_per_minute),
        concurrency=_first(terms.concurrency, defaults.concurrency),
    )


def _first(own: int | None, default: int) -> int:
    return default if own is None else own
