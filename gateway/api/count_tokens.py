"""POST /v1/messages/count_tokens: ask a provider, or estimate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final

import orjson
from aiohttp import web
from multidict import MultiMapping

from gateway.api.admission import estimate_input, find_model, pick_headers
from gateway.api.bodies import parse, read_body, run_large
from gateway.api.call import Call
from gateway.base.errors import GatewayError, OutOfResources, UpstreamError
from gateway.dialects.formats import CountPath
from gateway.dialects.messages.upstream import edit_count
from gateway.dialects.wire.fields import dump_request
from gateway.dialects.wire.records import CompletionRequest
from gateway.upstream.attempt import fetch
from gateway.upstream.routing import Candidate, order_routes

MAX_COUNT_BYTES: Final = 4 << 20
"""Bytes of a request to count tokens: more than the text of a million tokens. Counting is free."""
ESTIMATED_HEADER: Final = "x-gateway-estimated"


async def count_tokens(counter: CountPath, http: web.Request, call: Call) -> web.Response:
    """Reply with the provider's count of a request's tokens.

    It is an estimate where no provider of the dialect serves the model.
    """
    assert call.key is not None
    with call.gateway.counting.admit(call.key.account.id):
        caller = counter.exchange.caller
        request = await parse(call, caller, await read_body(http, call, MAX_COUNT_BYTES))
        return await count_request(counter, http, call, request)


async def count_request(
    counter: CountPath, http: web.Request, call: Call, request: CompletionRequest
) -> web.Response:
    """Reply with the count of a request that was read."""
    gateway, exchange = call.gateway, counter.exchange
    model = await find_model(call, request.model)
    call.model = model.id
    candidates = [
        candidate
        for candidate in gateway.routes.find_candidates(exchange.caller.name, model)
        if candidate.provider.config.dialect in counter.exchanges
    ]
    if not candidates:
        write = partial(dump_request, request.body)
        sent = await run_large(call, write) if request.is_large else write()
        count = orjson.dumps({**counter.frame, "input_tokens": estimate_input(request, len(sent))})
        return reply_json(count, {ESTIMATED_HEADER: "true"})
    return reply_json(await _ask(call, counter, http.headers, candidates, request))


async def _ask(
    call: Call,
    counter: CountPath,
    headers: MultiMapping[str],
    candidates: Sequence[Candidate],
    request: CompletionRequest,
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
        payload = (await run_large(call, write) if request.is_large else write()).data
        try:
            with provider.visit(target.upstream_model):
                reply = await fetch(provider.forwarder, exchange, payload, passed, gateway.ticker)
            return edit_count(reply, request.model)
        except GatewayError as error:
            candidate.report(error, call.note_failure)
            # A faulty request is faulty for every provider.
            if not isinstance(error, UpstreamError | OutOfResources):
                raise
            failure = error
    assert failure is not None
    raise failure


def reply_json(body: bytes, headers: Mapping[str, str] = MappingProxyType({})) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": "application/json", **headers})
