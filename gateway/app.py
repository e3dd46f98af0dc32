"""The application: the API and the console around one `Gateway`."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from gateway.api.call import Call
from gateway.api.routes import add_api
from gateway.api.state import Gateway
from gateway.config.records import Config, Provider
from gateway.console.dispatch import add_console
from gateway.dialects.exchanges import EMBEDDINGS, EXCHANGES, Exchanges
from gateway.dialects.records import DEMO, EMBEDDERS
from gateway.ledger.serving.ledger import ServingLedger
from gateway.upstream.attempt import Ticker
from gateway.upstream.demo import DemoForwarder
from gateway.upstream.forwarder import Forwarder, HttpForwarder
from gateway.upstream.routing import ProviderState, Routes


def make_app(gateway: Gateway) -> web.Application:
    app = web.Application()
    add_console(app, gateway)
    add_api(app, gateway)
    return app


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
