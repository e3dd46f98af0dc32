"""The state that all requests share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from gateway.api.aiohttp_insides import WebHandler
from gateway.api.bodies import Share
from gateway.api.front import Call
from gateway.api.limits import AllRates, Bucket
from gateway.base.deadlines import Ticker
from gateway.base.errors import GatewayError
from gateway.base.turns import LargeBodies
from gateway.base.usage import MissingUsages
from gateway.config.records import Config, Provider, Reload
from gateway.dialects.wire.records import DEMO
from gateway.extension import Started, find_dialects, find_extras, find_formats
from gateway.ledger.serving.ledger import ServingLedger
from gateway.upstream.demo import DemoForwarder
from gateway.upstream.forwarder import HttpForwarder
from gateway.upstream.provider import ProviderState
from gateway.upstream.routing import Route, Routes

log = logging.getLogger("gateway.state")

Offer = TypeVar("Offer")

LOOKUPS_PER_MINUTE: Final = 600
"""Look-ups of ended keys, for all callers together: made-up keys must not keep the ledger busy."""


@dataclass(slots=True, eq=False, repr=False)
class Gateway:
    """The state that all requests share; `in_flight` and `buffered_bytes` count admitted requests."""

    config: Config
    """The configuration in force: `read`, after extras have adjusted it."""
    ledger: ServingLedger
    routes: Routes
    ticker: Ticker
    listeners: list[Callable[[Call, int], None]] = field(default_factory=list)
    """Called with each ended request and its status: the log and metrics."""
    refusal_listeners: list[Callable[[Call, GatewayError], object]] = field(default_factory=list)
    """Called with each request that is answered by an error, before it ends."""
    attempt_listeners: list[Callable[[Call, Route, BaseException | None], object]] = field(
        default_factory=list
    )
    """Called with each request that was sent to a provider, and what went wrong."""
    reloaded: list[Callable[[Config], object]] = field(default_factory=list)
    """Called with a reloaded configuration, to renew what was made of the settings at the start."""
    in_flight: int = 0
    buffered_bytes: int = 0
    """The bytes of bodies and replies in memory, see `shares`."""
    shares: dict[int, Share] = field(default_factory=dict)
    """Each account's part of `buffered_bytes`, by its id; absent if it has none."""
    large_bodies: LargeBodies = field(default_factory=LargeBodies)
    rates: AllRates = field(default_factory=AllRates)
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
    read: Config = field(init=False)
    """The configuration as gateway.toml has it."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a configuration is adjusted, so that an older one never replaces a newer one."""

    def __post_init__(self) -> None:
        self.read = self.config

    def find_offers(self, kind: type[Offer]) -> list[Offer]:
        """Return what extras offer of a type."""
        offers = (one for extra in self.extras for one in extra.offers)
        return [one for one in offers if isinstance(one, kind)]

    async def reconfigure(self, read: Config | None = None) -> None:
        """Serve by another configuration from now on, or by the same one as extras adjust it now."""
        async with self._turn:
            read = self.read if read is None else read
            config, routes = await asyncio.to_thread(self._prepare, read)
            self.read = read
            self.swap(config, routes)

    def _prepare(self, config: Config) -> tuple[Config, Routes]:
        for extra in self.extras:
            config = extra.adjust(config)
        return config, make_routes(config, before=self.routes)

    def swap(self, config: Config, routes: Routes) -> None:
        """Replace both in one step. Requests in flight keep what they began with."""
        before, self.config, self.routes = self.routes, config, routes
        # After the swap, so that no new request finds a closed provider.
        before.close(but=routes)
        for extra in self.extras:
            try:
                extra.reconfigure()
            except Exception:
                # The configuration is in force by then, so a bug of one extra must not look like a refusal.
                log.exception("an extra failed to follow the configuration")

    def close(self) -> None:
        """Close all connections and threads, at the very end."""
        self.ticker.close()
        for extra in self.extras:
            extra.close()
        self.routes.close()
        self.large_bodies.close()


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
