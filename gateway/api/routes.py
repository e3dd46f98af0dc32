"""The applications of the API: each has the routes of one policy and the chain that it needs.

application                 errors speak     key, rate    charged    log line
/v1 and a caller's `path`   the caller's     yes          yes        yes
/v1/messages/count_tokens   messages         yes          no         yes
/v1 (models, receipts, key) by a header      yes          no         yes
/healthz, /readyz           by a header      no           no         no
any other path              by a header      no           no         yes
"""

from __future__ import annotations

from collections.abc import Mapping
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
from gateway.dialects import CALLERS, COUNT_TOKENS, Caller

FREE: Final = (know_caller, make_rate_limit(for_money=False))
CHARGED: Final = (know_caller, make_rate_limit(for_money=True), require_balance)

Application = tuple[str, tuple[Middleware, ...], list[web.RouteDef]]
"""Prefix, middlewares and routes."""


def add_api(
    app: web.Application, gateway: Gateway, callers: Mapping[str, Caller] = CALLERS
) -> None:
    """Add everything but the console. Longer prefixes win, wherever they stand."""
    for prefix, middlewares, routes in make_applications(callers):
        part = web.Application(middlewares=middlewares)
        part[GATEWAY] = gateway
        part.add_routes(routes)
        app.add_subapp(prefix, part)
    app[GATEWAY] = gateway
    front = make_front(*callers.values())

    async def refuse_path(request: web.Request) -> web.StreamResponse:
        return await front(request, _raise_not_found)

    app.router.add_route(hdrs.METH_ANY, "/{path:.*}", refuse_path)


def make_applications(callers: Mapping[str, Caller]) -> list[Application]:
    """Make the completions of every caller, and what all callers share."""
    front = make_front(*callers.values())
    health = make_front(*callers.values(), logged=False)
    shared = [
        _get("/models", list_models),
        _get("/models/{model:.+}", retrieve_model),
        _get("/receipts/{request_id}", show_receipt),
        _get("/key", show_key),
    ]
    count_front = make_front(COUNT_TOKENS.caller)
    return [
        *map(_make_completions, callers.values()),
        ("/v1/messages/count_tokens", (count_front, *FREE), [_post("", count_tokens)]),
        ("/v1", (front, *FREE), shared),
        ("/healthz", (health,), [web.get("", report_health)]),
        ("/readyz", (health,), [web.get("", report_readiness)]),
    ]


def _make_completions(caller: Caller) -> Application:
    handler = make_completion_handler(caller)
    return f"/v1{caller.path}", (make_front(caller), *CHARGED), [_post("", handler)]


def _post(path: str, handler: Handler) -> web.RouteDef:
    return web.post(path, handler, expect_handler=defer_continue)


def _get(path: str, handler: Handler) -> web.RouteDef:
    return web.get(path, handler, allow_head=False)


async def _raise_not_found(_: web.Request) -> web.StreamResponse:
    raise web.HTTPNotFound
