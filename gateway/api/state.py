"""The state that all requests share, made with routes to all providers that are on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from gateway.api.bodies import LargeBodies, Share
from gateway.api.call import Call, MissingUsages
from gateway.api.limits import Bucket, Counting, Rates
from gateway.config.records import Config, Limits, Provider, Reload
from gateway.dialects.exchanges import EMBEDDINGS, EXCHANGES, Exchanges
from gateway.dialects.records import DEMO, EMBEDDERS
from gateway.ledger.base import Account, Key
from gateway.ledger.key_records import Terms
from gateway.ledger.serving.ledger import ServingLedger
from gateway.upstream.attempt import Ticker
from gateway.upstream.demo import DemoForwarder
from gateway.upstream.forwarder import Forwarder, HttpForwarder
from gateway.upstream.routing import ProviderState, Routes

LOOKUPS_PER_MINUTE: Final = 600
"""For all callers together: made-up keys must not keep the ledger busy."""


@dataclass(slots=True, eq=False, repr=False)
class Gateway:
    """The state that all requests share; `in_flight` and `held_bytes` count admitted requests."""

    config: Config
    ledger: ServingLedger
    routes: Routes
    ticker: Ticker
    log_call: Callable[[Call, int], None]
    in_flight: int = 0
    held_bytes: int = 0
    """The bytes of bodies and replies in memory, see `bodies`."""
    shares: dict[int, Share] = field(default_factory=dict)
    """Each account's part of `held_bytes`, by its id; absent if it has none."""
    large_bodies: LargeBodies = field(default_factory=LargeBodies)
    counting: Counting = field(default_factory=Counting)
    rates: WeakKeyDictionary[Key | Account, Rates] = field(default_factory=WeakKeyDictionary)
    """The use of each key and account that asked for something, for as long as the ledger has it."""
    draining: bool = False
    missing_usages: MissingUsages = field(default_factory=MissingUsages)
    ended_key_lookups: Bucket = field(
        default_factory=lambda: Bucket(LOOKUPS_PER_MINUTE, time.monotonic())
    )
    """Bounds how often the end of a key that is not in memory is looked up."""
    last_reload: Reload | None = None
    """How the configuration was last read again; None: not since the start."""

    def reconfigure(self, config: Config, routes: Routes) -> None:
        """Serve by another configuration from now on; requests in flight keep what they began with."""
        before, self.config, self.routes = self.routes, config, routes
        # Behind the swap, so that no new request finds a provider that is closed.
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
            # By identity: memory makes other terms only where they have changed.
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


def find_limits(terms: Terms, defaults: Limits) -> Limits:
    """Return the limits in force: the key's or account's own, or else the configuration's."""
    return Limits(
        requests_per_minute=_first(terms.requests_per_minute, defaults.requests_per_minute),
        tokens_per_minute=_first(terms.tokens_per_minute, defaults.tokens_per_minute),
        concurrency=_first(terms.concurrency, defaults.concurrency),
    )


def _first(own: int | None, default: int) -> int:
    return default if own is None else own


def make_gateway(
    config: Config,
    ledger: ServingLedger,
    log_call: Callable[[Call, int], None],
    exchanges: Exchanges = EXCHANGES,
) -> Gateway:
    """Make the shared state, with a forwarder for every provider that is on."""
    return Gateway(config, ledger, make_routes(config, exchanges), Ticker(), log_call)


def make_routes(
    config: Config, exchanges: Exchanges = EXCHANGES, *, before: Routes | None = None
) -> Routes:
    """Route every model that can be served in some dialect.

    Providers of the routes `before` whose settings are the same keep their connections and breakers.
    """
    servable = {dialect for row in exchanges.values() for dialect in row}
    models = {
        model.id: model
        for model in config.active_models().values()
        if any(config.providers[route.provider].dialect in servable for route in model.routes)
    }
    used = {route.provider for model in models.values() for route in model.routes}
    known = {} if before is None else before.providers
    providers = {name: _make_state(config.providers[name], known.get(name)) for name in used}
    embeddings = {EMBEDDINGS.caller.name: dict.fromkeys(EMBEDDERS, EMBEDDINGS)}
    return Routes(models, providers, {**exchanges, **embeddings})


def _make_state(provider: Provider, before: ProviderState | None) -> ProviderState:
    if before is not None and before.config == provider:
        return before
    return ProviderState(_make_forwarder(provider), before)


def _make_forwarder(provider: Provider) -> Forwarder:
    return DemoForwarder(provider) if provider.dialect == DEMO else HttpForwarder(provider)
