"""The routes of the API, each wrapped in the layers that it needs.

route                       errors speak     key, rate    charged    log line
a caller's `path`           the caller's     yes          yes        yes
a service's `path`          chat             yes          yes        yes
a count of tokens           the caller's     yes          no         yes
models, receipts, key       by a header      yes          no         yes
/healthz, /readyz           by a header      no           no         no
any other path              by a header      no           no         yes

A path beneath a caller's is answered in the caller's dialect, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import orjson
from aiohttp import hdrs, web
from multidict import MultiMapping

from gateway.api.admission import find_model, parse, pick_headers
from gateway.api.billing import estimate_input
from gateway.api.bodies import count_values, defer_continue, place_elements, read_body, run_at
from gateway.api.completions import serve_completion
from gateway.api.front import Handler, make_front, refuse_method, refuse_path
from gateway.api.keys import require_key
from gateway.api.lookups import (
    list_models,
    report_health,
    report_readiness,
    retrieve_model,
    show_key,
    show_receipt,
)
from gateway.api.state import Call, Gateway
from gateway.dialects.base import Caller
from gateway.dialects.exchanges import CALLERS, COUNTERS, RERANK, SERVICES, CountPath
from gateway.dialects.messages.upstream import edit_count
from gateway.dialects.records import CompletionRequest
from gateway.dialects.wire.fields import dump_request
from gateway.errors import GatewayError, OutOfResources, UpstreamError
from gateway.tasks import Place
from gateway.upstream.forwarder import fetch
from gateway.upstream.routing import Candidate, order_routes

MAX_COUNT_BYTES: Final = 4 << 20
"""Bytes of a request that is counted, which is free: more than the text of a million tokens."""
ESTIMATED_HEADER: Final = "x-gateway-estimated"


def make_counting(counter: CountPath) -> Handler:
    """Make the handler of a counter's path.

    It replies with the provider's count, or with an estimate where no provider of the dialect serves
    the model.
    """

    async def count_tokens(http: web.Request, call: Call) -> web.Response:
        assert call.key is not None
        with call.gateway.counting.admit(call.key.account.id):
            return await _count(http, call, counter)

    return count_tokens


async def _count(http: web.Request, call: Call, counter: CountPath) -> web.Response:
    gateway, exchange = call.gateway, counter.exchange
    body = await read_body(http, call, MAX_COUNT_BYTES)
    values = count_values(body)
    request = await parse(call, exchange.caller, body, values)
    place = place_elements(len(body), values, exchange.request_rate)
    model = await find_model(call, request.model)
    call.model = model.id
    candidates = [
        candidate
        for candidate in gateway.routes.find_candidates(exchange.caller.name, model)
        if candidate.provider.config.dialect in counter.exchanges
    ]
    if not candidates:
        write = partial(dump_request, request.body)
        sent = await run_at(call, place, write)
        count = orjson.dumps({**counter.frame, "input_tokens": estimate_input(request, len(sent))})
        return _reply(count, {ESTIMATED_HEADER: "true"})
    return _reply(await _ask(call, counter, http.headers, candidates, request, place=place), {})


async def _ask(
    call: Call,
    counter: CountPath,
    headers: MultiMapping[str],
    candidates: Sequence[Candidate],
    request: CompletionRequest,
    *,
    place: Place,
) -> bytes:
    """Return the first count that a provider gives. Raises the last provider's error.

    The models' breakers count no failure here: some providers of the dialect cannot count tokens.
    """
    gateway, failure = call.gateway, None
    for candidate in order_routes(candidates):
        provider, target = candidate.provider, candidate.target
        exchange = counter.exchanges[provider.config.dialect]
        passed = pick_headers(headers, exchange.passed_headers)
        write = partial(exchange.write_request, request, target)
        payload = (await run_at(call, place, write)).data
        try:
            with provider.visit(target.upstream_model):
                reply = await fetch(provider.forwarder, exchange, payload, passed, gateway.ticker)
            return edit_count(reply, request.model)
        except GatewayError as error:
            candidate.report(error, call.note_failure)
            # What is wrong with the request is wrong for every provider.
            if not isinstance(error, UpstreamError | OutOfResources):
                raise
            failure = error
    assert failure is not None
    raise failure


def _reply(body: bytes, headers: dict[str, str]) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": "application/json", **headers})


Access = Literal["charged", "free", "open"]
"""A route is open to callers with a balance, to callers with a key, or to everybody."""

OTHER_PATHS: Final = "_other"
"""Surface name for unknown paths, used in metrics."""
_ANY_REST: Final = "/{rest:.*}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: Literal["GET", "POST"]
    path: str
    access: Access
    handler: Handler
    callers: tuple[Caller, ...]

    @property
    def surface(self) -> str:
        """The path in metrics: without the version and what varies."""
        return self.path.removeprefix("/v1").strip("/").partition("/{")[0]

    def wrap(self) -> Handler:
        """Return the handler within the check of the caller that the route needs."""
        if self.access == "open":
            return self.handler
        return require_key(self.handler, for_money=self.access == "charged")


def add_api(
    app: web.Application, gateway: Gateway, callers: Mapping[str, Caller] = CALLERS
) -> None:
    """Add all endpoints, and the refusal of unknown paths."""
    routes = make_routes(callers)
    for route in routes:
        _add_route(app.router, gateway, route)
    refuse = refuse_path([route.path for route in routes])
    for one in callers.values():
        front = make_front(gateway, refuse, (one,), surface=OTHER_PATHS)
        app.router.add_route(hdrs.METH_ANY, f"/v1{one.path}{_ANY_REST}", front)
    front = make_front(gateway, refuse, callers.values(), surface=OTHER_PATHS)
    app.router.add_route(hdrs.METH_ANY, _ANY_REST, front)


def make_routes(callers: Mapping[str, Caller]) -> list[Endpoint]:
    """Make the completions of every caller, and what all callers share."""
    everybody = tuple(callers.values())
    charged = [
        Endpoint("POST", f"/v1{one.path}", "charged", serve_completion, (one,))
        for one in (*everybody, *(service.caller for service in SERVICES))
    ]
    counts = [
        Endpoint("POST", f"/v1{one.path}", "free", make_counting(one), (one.exchange.caller,))
        for one in COUNTERS
    ]
    ranks = (RERANK.caller,)
    return [
        *charged,
        # As Cohere's SDK, whose base address has no version in it, asks.
        Endpoint("POST", "/v2/rerank", "charged", serve_completion, ranks),
        *counts,
        Endpoint("GET", "/v1/models", "free", list_models, everybody),
        Endpoint("GET", "/v1/models/{model:.+}", "free", retrieve_model, everybody),
        Endpoint("GET", "/v1/receipts/{request_id}", "free", show_receipt, everybody),
        Endpoint("GET", "/v1/key", "free", show_key, everybody),
        Endpoint("GET", "/healthz", "open", report_health, everybody),
        Endpoint("GET", "/readyz", "open", report_readiness, everybody),
    ]


def _add_route(router: web.UrlDispatcher, gateway: Gateway, route: Endpoint) -> None:
    resource = router.add_resource(route.path)
    # aiohttp would ask for the body before the key is known.
    expect = defer_continue if route.method == hdrs.METH_POST else None
    for method, handler in (
        (route.method, route.wrap()),
        (hdrs.METH_ANY, refuse_method(route.method)),
    ):
        front = make_front(
            gateway, handler, route.callers, surface=route.surface, logged=route.access != "open"
        )
        resource.add_route(method, front, expect_handler=expect)
        if method != hdrs.METH_ANY and "{" not in route.path:
            gateway.fronts[method, route.path] = front
