"""The state that all requests share, and the record of each: its reply's headers, counts for operators.

What is logged or counted is never a key, a prompt or a reply.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from gateway.api.aiohttp_insides import WebHandler
from gateway.api.limits import Bucket, Counting, Rates
from gateway.base.deadlines import Ticker
from gateway.base.errors import (
    GatewayError,
    InternalError,
    InvalidKey,
    OutOfResources,
    UpstreamError,
    take_out,
)
from gateway.base.money import Tokens, format_amount
from gateway.base.times import unix_ms
from gateway.base.turns import LargeBodies
from gateway.base.usage import MissingUsages
from gateway.config.records import Config, Limits, Provider, Reload
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.records import DEMO, Upload
from gateway.extension import Started, find_dialects, find_extras, find_formats
from gateway.ledger.base import Account, Key
from gateway.ledger.call_records import Outcome
from gateway.ledger.key_records import LIMITS, Terms
from gateway.ledger.observation_records import UpstreamFailure
from gateway.ledger.serving.ledger import ServingLedger
from gateway.upstream.demo import DemoForwarder
from gateway.upstream.forwarder import HttpForwarder
from gateway.upstream.providers import ProviderState
from gateway.upstream.routing import Candidate, Routes

Offer = TypeVar("Offer")

LOOKUPS_PER_MINUTE: Final = 600
"""Look-ups of ended keys, for all callers together: made-up keys must not keep the ledger busy."""


@dataclass(slots=True, eq=False)
class Share:
    """The bytes that the requests and replies of one account take in memory."""

    buffered_bytes: int = 0
    ahead: Call | None = None
    """The request whose reply is read to its end although the share is full."""


MAX_FAILURES: Final = 20
"""How many of the latest failures the page Health shows: they fill a screen."""
SERVER_ERROR: Final = 500
"""The lowest status that counts as a failure of the gateway or of a provider."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A reply of status 500 or above."""

    at_ms: int
    request_id: str
    status: int
    code: str | None
    provider: str | None


@dataclass(slots=True, eq=False, repr=False)
class Gateway:
    """The state that all requests share; `in_flight` and `buffered_bytes` count admitted requests."""

    config: Config
    ledger: ServingLedger
    routes: Routes
    ticker: Ticker
    listeners: list[Callable[[Call, int], None]] = field(default_factory=list)
    """Called with each ended request and its status: the log and metrics."""
    failures: deque[Failure] = field(default_factory=partial(deque, maxlen=MAX_FAILURES))
    """The latest failures, the newest last."""
    in_flight: int = 0
    buffered_bytes: int = 0
    """The bytes of bodies and replies in memory, see `bodies`."""
    shares: dict[int, Share] = field(default_factory=dict)
    """Each account's part of `buffered_bytes`, by its id; absent if it has none."""
    large_bodies: LargeBodies = field(default_factory=LargeBodies)
    counting: Counting = field(default_factory=Counting)
    rates: WeakKeyDictionary[Key | Account, Rates] = field(default_factory=WeakKeyDictionary)
    """The rates of keys and accounts that made requests, as long as the ledger knows them."""
    draining: bool = False
    missing_usages: MissingUsages = field(default_factory=MissingUsages)
    ended_key_lookups: Bucket = field(
        default_factory=lambda: Bucket(LOOKUPS_PER_MINUTE, time.monotonic())
    )
    """Limits how often the ledger is asked when an unknown key ended."""
    fronts: dict[tuple[str, str], WebHandler] = field(default_factory=dict)
    """Handlers by method and path, for paths without variables: they need no router."""
    last_reload: Reload | None = None
    """The result of the last reload of the configuration; None before the first."""
    extras: list[Started] = field(default_factory=list)

    def find_offers(self, kind: type[Offer]) -> list[Offer]:
        """Return what extras offer of a type."""
        offers = (one for extra in self.extras for one in extra.offers)
        return [one for one in offers if isinstance(one, kind)]

    def note_end(self, call: Call, status: int) -> None:
        """Keep a failure, and tell the listeners of a request that has ended."""
        if status >= SERVER_ERROR:
            self.failures.append(
                Failure(unix_ms(), call.request_id, status, call.error_code, call.provider or None)
            )
        for listener in self.listeners:
            listener(call, status)

    def reconfigure(self, config: Config, routes: Routes) -> None:
        """Serve by another configuration from now on. Requests in flight keep the one they began with."""
        before, self.config, self.routes = self.routes, config, routes
        # After the swap, so that no new request finds a closed provider.
        before.close(but=routes)
        for extra in self.extras:
            extra.reconfigure()

    def close(self) -> None:
        """Close all connections and threads, at the very end."""
        self.ticker.close()
        for extra in self.extras:
            extra.close()
        self.routes.close()
        self.large_bodies.close()

    def find_rates(self, key: Key, now: float) -> Rates:
        """Return the key's rates, and above them its account's, with the limits in force."""
        rates = self.rates.get(key)
        if (
            rates is not None
            # Compared by identity: the memory makes new terms only when they change.
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
            rates.set_limits(find_limits(terms, defaults), now)
            rates.terms = terms
        own.defaults = config
        return own


@dataclass(slots=True)
class Call:
    """One request: its state, and the facts for its log line."""

    gateway: Gateway
    request_id: str
    dialect: Caller
    started: float
    """Monotonic seconds."""
    started_ms: int
    """Wall clock, Unix milliseconds."""
    surface: str = ""
    """The request's path in metrics, or the part of the application it belongs to."""
    key: Key | None = None
    rates: Rates | None = None
    balance_nano: int | None = None
    """The available balance when the hold was taken."""
    asked_model: str = ""
    """The model that the request names, if it can be a name; `model` is set once the caller may use
    it."""
    model: str = ""
    provider: str = ""
    upstream_model: str = ""
    attempts: int = 0
    failed: str = ""
    """The routes that failed, each with its cause."""
    stream: bool = False
    outcome: Outcome | None = None
    status: int | None = None
    """The status in the ledger: the one sent to the caller, or that would have been sent had it
    stayed."""
    error_code: str | None = None
    """The code of an error reply, see `find_code`."""
    tokens: Tokens = field(default_factory=Tokens)
    cost_nano: int = 0
    estimated: bool = False
    first_byte_ms: int | None = None
    waited_seconds: float = 0.0
    """The time spent waiting for the caller's body or a provider."""
    buffered_bytes: int = 0
    """The request's part of its account's `Share`."""
    reply_bytes: int = 0
    """The reply's part of `buffered_bytes`."""
    upload: Upload | None = None
    """The file that arrived with the fields of its request."""
    visit: Mapping[str, str] = field(default_factory=dict)
    """For the log line of a request to the console or an unknown path: method, path, address of the
    visitor."""

    def note_failure(self, route: str, cause: str) -> None:
        """Note that a route did not serve the request."""
        self.failed += f"{'; ' if self.failed else ''}{route}: {cause}"

    def note_first_byte(self) -> None:
        """Note that the caller's first byte leaves now; later calls change nothing."""
        if self.first_byte_ms is None:
            self.first_byte_ms = int((time.monotonic() - self.started) * 1000)


def find_limits(terms: Terms, defaults: Limits) -> Limits:
    """Return the limits in force: the key's or account's own, or else the configuration's."""
    own = {name: limit for name in LIMITS if (limit := getattr(terms, name)) is not None}
    return replace(defaults, **own)


def make_gateway(config: Config, ledger: ServingLedger) -> Gateway:
    """Make the shared state, with a forwarder for every provider that is on."""
    gateway = Gateway(config, ledger, make_routes(config), Ticker())
    starts = (extra.start for extra in find_extras().values())
    gateway.extras += [start(gateway) for start in starts if start is not None]
    return gateway


def make_routes(config: Config, *, before: Routes | None = None) -> Routes:
    """Make the routes of every model that some dialect can serve.

    Providers of the routes `before` whose settings are the same keep their connections and breakers.
    """
    formats = find_formats()
    servable = {dialect for row in formats.exchanges.values() for dialect in row}
    models = {
        model.id: model
        for model in config.active_models().values()
        if any(config.providers[route.provider].dialect in servable for route in model.routes)
    }
    used = {route.provider for model in models.values() for route in model.routes}
    known = {} if before is None else before.providers
    providers = {name: _make_state(config.providers[name], known.get(name)) for name in used}
    openai_like = [name for name, one in find_dialects().items() if one.is_openai_like]
    services = {one.caller.name: dict.fromkeys(openai_like, one) for one in formats.services}
    return Routes(models, providers, {**formats.exchanges, **services})


def _make_state(provider: Provider, before: ProviderState | None) -> ProviderState:
    if before is not None and before.config == provider:
        return before
    if provider.dialect == DEMO:
        return ProviderState(DemoForwarder(provider), before)
    return ProviderState(HttpForwarder(provider, () if before is None else before.keys), before)


def make_headers(call: Call) -> Mapping[str, str]:
    """Make the headers that every reply to this request carries."""
    headers = call.dialect.reply_headers(call.request_id)
    if call.rates is not None and (limits := call.rates.list_limits(time.monotonic())):
        headers.update(call.dialect.limit_headers(limits, call.started_ms))
    if call.balance_nano is not None:
        headers["x-gateway-balance"] = format_amount(call.balance_nano)
    return headers


MAX_REASON_CHARS: Final = 200
"""Characters of a failure's reason, which has to fit into a line or two."""
_PLAIN: Final = re.compile(r"[a-z_]{1,40}")


def find_code(error: GatewayError) -> str:
    """Return an error's code for logs and tables, or its type: a provider's code could be any text."""
    return error.code if error.code and _PLAIN.fullmatch(error.code) else error.type


def note_refusal(call: Call, error: GatewayError) -> None:
    """Count a request that the gateway refused itself, before it was admitted.

    A request with an unknown key counts without an account. Requests without a key, such as those for
    unknown paths, do not count.
    """
    # Admitted requests are in the ledger, and failures of the gateway or a provider are not refusals.
    if call.outcome is not None or isinstance(error, UpstreamError | InternalError):
        return
    if call.key is None and not isinstance(error, InvalidKey):
        return
    account_id, key_id = (None, "") if call.key is None else (call.key.account.id, call.key.id)
    named = call.model or call.asked_model
    # Names that callers make up must not fill the table of sums.
    model = named if named in call.gateway.config.models else ""
    call.gateway.ledger.note_refusal(
        account_id, find_code(error), model, call.request_id, named=named, key_id=key_id
    )


def note_upstream_call(call: Call, candidate: Candidate, error: BaseException | None) -> None:
    """Count a request sent to a provider; it failed or was rejected if `error` is the provider's."""
    failure = None
    if isinstance(error, OutOfResources):
        return  # the request was not sent
    if isinstance(error, UpstreamError) or (
        isinstance(error, GatewayError) and error.upstream_status is not None
    ):
        failure = _describe_failure(call, candidate, error)
    call.gateway.ledger.note_upstream_call(call.provider, call.upstream_model, failure)


def _describe_failure(call: Call, candidate: Candidate, error: GatewayError) -> UpstreamFailure:
    """Describe a failure by its kind alone: the provider's words may quote the caller's."""
    candidate.provider.forwarder.redact(error)
    config = candidate.provider.config
    path = candidate.paths[call.stream] or candidate.exchange.upstream.path
    reason = error.cause
    if isinstance(error, UpstreamError) and error.upstream_status is not None and error.alarm:
        reason = f"{reason}: {error.alarm}"
    return UpstreamFailure(
        at_ms=call.gateway.ledger.clock(),
        request_id=call.request_id,
        status=error.upstream_status,
        reason=reason[:MAX_REASON_CHARS],
        url=take_out(f"{config.base_url}{path}", config.api_keys) if config.base_url else "",
        **error.provider_error._asdict(),
        rejected=not isinstance(error, UpstreamError),
    )
