"""The applications of the API: each has the routes of one policy and the chain that it needs.

application                 errors speak     key, rate    charged    log line
/v1/chat                    chat             yes          yes        yes
/v1/messages                messages         yes          yes        yes
/v1/messages/count_tokens   messages         yes          no         yes
/v1 (models, receipts, key) by a header      yes          no         yes
/healthz, /readyz           by a header      no           no         no
any other path              by a header      no           no         yes
"""

from __future__ import annotations

from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from gateway.api.body import defer_continue
from gateway.api.completions import make_completion_handler
from gateway.api.count_tokens import count_tokens
from gateway.api.health import report_health, report_readiness
from gateway.api.middleware import (
    Handler,
    know_caller,
    make_front,
    make_rate_limit,
    require_balance,
)
from gateway.api.models import list_models, retrieve_model
from gateway.api.own_key import show_key
from gateway.api.receipts import show_receipt
from gateway.api.state import GATEWAY, Gateway
from gateway.dialects import CALLERS, Caller

CHAT: Final = CALLERS["chat"]
MESSAGES: Final = CALLERS["messages"]


def choose_by_header(request: web.Request) -> Caller:
    """Return the dialect of a path that both share: Anthropic's SDKs alone send `anthropic-version`."""
    return MESSAGES if "anthropic-version" in request.headers else CHAT


FRONT: Final = make_front(choose_by_header)
CHAT_FRONT: Final = make_front(lambda _: CHAT)
MESSAGES_FRONT: Final = make_front(lambda _: MESSAGES)
HEALTH_FRONT: Final = make_front(choose_by_header, logged=False)
FREE: Final = (know_caller, make_rate_limit(for_money=False))
CHARGED: Final = (know_caller, make_rate_limit(for_money=True), require_balance)


def add_api(app: web.Application, gateway: Gateway) -> None:
    """Add everything but the console. Longer prefixes win, wherever they stand."""
    for prefix, middlewares, routes in APPLICATIONS:
        part = web.Application(middlewares=middlewares)
        part[GATEWAY] = gateway
        part.add_routes(routes)
        app.add_subapp(prefix, part)
    app[GATEWAY] = gateway
    app.router.add_route(hdrs.METH_ANY, "/{path:.*}", _refuse_path)


def _post(path: str, handler: Handler) -> web.RouteDef:
    return web.post(path, handler, expect_handler=defer_continue)


def _get(path: str, handler: Handler) -> web.RouteDef:
    return web.get(path, handler, allow_head=False)


async def _refuse_path(request: web.Request) -> web.StreamResponse:
    return await FRONT(request, _raise_not_found)


async def _raise_not_found(_: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound


APPLICATIONS: Final[tuple[tuple[str, tuple[Middleware, ...], list[web.RouteDef]], ...]] = (
    ("/v1/chat", (CHAT_FRONT, *CHARGED), [_post("/completions", make_completion_handler(CHAT))]),
    ("/v1/messages", (MESSAGES_FRONT, *CHARGED), [_post("", make_completion_handler(MESSAGES))]),
    ("/v1/messages/count_tokens", (MESSAGES_FRONT, *FREE), [_post("", count_tokens)]),
    (
        "/v1",
        (FRONT, *FREE),
        [
            _get("/models", list_models),
            _get("/models/{model:.+}", retrieve_model),
            _get("/receipts/{request_id}", show_receipt),
            _get("/key", show_key),
        ],
    ),
    ("/healthz", (HEALTH_FRONT,), [web.get("", report_health)]),
    ("/readyz", (HEALTH_FRONT,), [web.get("", report_readiness)]),
)
"""Prefix, middlewares and routes."""
