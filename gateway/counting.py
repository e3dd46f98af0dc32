"""`POST /v1/messages/count_tokens`: asked of a messages provider, else estimated. Free either way."""

from __future__ import annotations

import orjson
from aiohttp import web

from gateway.billing import estimate_input
from gateway.dialects.messages import CountTokens
from gateway.dialects.messages_request import parse_messages_request
from gateway.intake import read_body
from gateway.routing import Candidate, try_routes
from gateway.state import CALL, GATEWAY
from gateway.surface import find_model

EXCHANGE = CountTokens()
ESTIMATED_HEADER = "x-gateway-estimated"


async def count_tokens(http: web.Request) -> web.Response:
    """The provider's count; where no messages provider serves the model, four bytes a token."""
    gateway = http.app[GATEWAY]
    body = await read_body(http)
    request = parse_messages_request(body, counting=True)
    model = find_model(http, request.model)
    http[CALL].model = model.id
    candidates = [
        candidate
        for candidate in gateway.routes.find_candidates("messages", model)
        if candidate.lane.provider.dialect == "messages"
    ]
    if not candidates:
        count = orjson.dumps({"input_tokens": estimate_input(request)})
        return _reply(count, {ESTIMATED_HEADER: "true"})
    passed = {n: http.headers[n] for n in EXCHANGE.passed_headers if n in http.headers}

    async def ask(candidate: Candidate) -> bytes:
        payload = EXCHANGE.write_request(request, candidate.target)
        return await candidate.lane.forwarder.fetch(EXCHANGE, payload, passed)

    return _reply(await try_routes(candidates, ask), {})


def _reply(body: bytes, headers: dict[str, str]) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": "application/json", **headers})
