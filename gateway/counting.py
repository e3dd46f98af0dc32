"""`POST /v1/messages/count_tokens`: asked of a messages provider, else estimated. Free either way."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import orjson
from aiohttp import web

from gateway.billing import estimate_input
from gateway.dialects.base import CompletionRequest
from gateway.dialects.jsonbytes import dumps_lenient, loads_lenient
from gateway.dialects.messages import CountTokens
from gateway.dialects.messages_request import parse_messages_request
from gateway.errors import GatewayError, UpstreamError
from gateway.intake import read_body
from gateway.routing import Candidate
from gateway.state import CALL, GATEWAY
from gateway.surface import find_model
from gateway.work import pick_headers

log = logging.getLogger("gateway.counting")

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
    return _reply(await _ask(http, candidates, request), {})


async def _ask(
    http: web.Request, candidates: Sequence[Candidate], request: CompletionRequest
) -> bytes:
    """The first provider's count that comes. Raises the last one's error.

    What fails here says nothing of completions, so the breaker takes no note: not all providers
    that speak the dialect can count.
    """
    headers = pick_headers(http, EXCHANGE)
    failure: UpstreamError | None = None
    for candidate in candidates:
        payload = EXCHANGE.write_request(request, candidate.target)
        try:
            reply = await candidate.lane.forwarder.fetch(EXCHANGE, payload, headers)
            return read_count(reply, request.model)
        except GatewayError as error:
            candidate.lane.forwarder.redact(error)
            error.replace_name(candidate.target.upstream_model, request.model)
            if not isinstance(error, UpstreamError):
                raise
            if error.alarm:
                log.error("provider %s: %s", candidate.lane.provider.name, error.alarm)  # noqa: TRY400 - no trace wanted
            failure = error
    assert failure is not None
    raise failure


def read_count(body: bytes, model: str) -> bytes:
    """The reply as it came, but for a model it may name. Raises UpstreamError when it is no count."""
    try:
        count = loads_lenient(body)
    except ValueError:
        count = None
    match count:
        case {"input_tokens": int(tokens)} if tokens >= 0 and not isinstance(tokens, bool):
            return dumps_lenient({**count, "model": model}) if "model" in count else body
        case _:
            raise UpstreamError("The upstream provider's reply is not a count of tokens.")


def _reply(body: bytes, headers: dict[str, str]) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": "application/json", **headers})
