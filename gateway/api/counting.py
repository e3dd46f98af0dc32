"""Counts of tokens before a request: by a provider, or estimated. They cost nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

import orjson
from aiohttp import web
from multidict import MultiMapping

from gateway.api.admission import find_model, parse, pick_headers
from gateway.api.billing import estimate_input
from gateway.api.bodies import Place, choose_place, read_body, run_at
from gateway.api.call import Call
from gateway.api.front import Handler
from gateway.dialects.exchanges import CountPath, Exchange
from gateway.dialects.messages.upstream import edit_count
from gateway.dialects.records import CompletionRequest
from gateway.dialects.wire.fields import dump_request
from gateway.errors import GatewayError, OutOfResources, UpstreamError
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
    request = await parse(call, exchange.caller, body)
    place = choose_place(body, exchange.request_rate)
    model = await find_model(call, request.model)
    call.model = model.id
    candidates = [
        candidate
        for candidate in gateway.routes.find_candidates(exchange.caller.name, model)
        if candidate.exchange.upstream.name == exchange.upstream.name
    ]
    if not candidates:
        write = partial(dump_request, request.body)
        sent = await run_at(call, place, write)
        count = orjson.dumps({**counter.frame, "input_tokens": estimate_input(request, len(sent))})
        return _reply(count, {ESTIMATED_HEADER: "true"})
    return _reply(await _ask(call, exchange, http.headers, candidates, request, place=place), {})


async def _ask(
    call: Call,
    exchange: Exchange,
    headers: MultiMapping[str],
    candidates: Sequence[Candidate],
    request: CompletionRequest,
    *,
    place: Place,
) -> bytes:
    """Return the first count that a provider gives. Raises the last provider's error.

    The models' breakers count no failure here: some providers of the dialect cannot count tokens.
    """
    passed, gateway = pick_headers(headers, exchange.passed_headers), call.gateway
    failure: GatewayError | None = None
    for candidate in order_routes(candidates):
        provider, target = candidate.provider, candidate.target
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
