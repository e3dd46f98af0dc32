"""The application: routes and middlewares around one `Gateway`."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from gateway.catalog import list_models, retrieve_model
from gateway.config import Config, Provider
from gateway.console.routes import add_console
from gateway.counting import count_tokens
from gateway.demo import DemoForwarder
from gateway.dialects.exchanges import EXCHANGES
from gateway.forwarder import Forwarder, HttpForwarder
from gateway.health import report_health, report_readiness
from gateway.intake import defer_continue
from gateway.keyinfo import show_key
from gateway.ledger.base import Ledger
from gateway.middleware import CHAT, MESSAGES, MIDDLEWARES
from gateway.receipts import show_receipt
from gateway.routing import Lane, Routes
from gateway.state import GATEWAY, Call, Gateway
from gateway.surface import make_completion_handler
from gateway.watch import Watch


def make_app(gateway: Gateway) -> web.Application:
    app = web.Application(
        middlewares=MIDDLEWARES, client_max_size=gateway.config.server.max_body_bytes
    )
    app[GATEWAY] = gateway
    router = app.router
    router.add_post(
        "/v1/chat/completions", make_completion_handler(CHAT), expect_handler=defer_continue
    )
    router.add_post(
        "/v1/messages", make_completion_handler(MESSAGES), expect_handler=defer_continue
    )
    router.add_post("/v1/messages/count_tokens", count_tokens, expect_handler=defer_continue)
    router.add_get("/healthz", report_health)
    router.add_get("/readyz", report_readiness)
    router.add_get("/v1/models", list_models, allow_head=False)
    router.add_get("/v1/models/{model:.+}", retrieve_model, allow_head=False)
    router.add_get("/v1/receipts/{request_id}", show_receipt, allow_head=False)
    router.add_get("/v1/key", show_key, allow_head=False)
    add_console(app, gateway)
    return app


def make_gateway(config: Config, ledger: Ledger, log_call: Callable[[Call, int], None]) -> Gateway:
    """The shared state, with a forwarder for every provider that is on. Needs a running loop."""
    watch = Watch()
    return Gateway(config, ledger, make_routes(config, watch), watch, log_call)


def make_routes(config: Config, watch: Watch) -> Routes:
    """Models some route of which can be served in some dialect."""
    servable = {dialect for row in EXCHANGES.values() for dialect in row}
    models = {
        model.id: model
        for model in config.active_models().values()
        if any(config.providers[route.provider].dialect in servable for route in model.routes)
    }
    used = {route.provider for model in models.values() for route in model.routes}
    lanes = {name: Lane(_make_forwarder(config.providers[name], watch)) for name in used}
    return Routes(models, lanes, EXCHANGES)


def _make_forwarder(provider: Provider, watch: Watch) -> Forwarder:
    if provider.dialect == "demo":
        return DemoForwarder(provider)
    return HttpForwarder(provider, watch)
