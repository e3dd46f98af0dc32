"""The handler of the completion surfaces: read, check, hold, forward, settle, reply.

How a request can end, and who pays (design.md §5):

    refused before the hold          a status                      nothing
    refused or failed, no first byte a status                      0, voided
    complete                         settled, then the last bytes  what was used
    upstream broke off mid-stream    an error event                max(reported, delivered); 0 if nothing
    caller left, JSON                read to its end all the same  in full
    caller left, stream              aborted or drained            the input and what was delivered;
                                                                   nothing if no provider had it
    ledger cannot be written         503 / an error event          nothing / queued
    gateway stopped                  an error event, or a cut      what was delivered
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from gateway.billing import Bill, estimate_input, make_usage_limits
from gateway.config import Model
from gateway.dialects.base import CallerDialect, CompletionRequest, Reply, ReplyContext
from gateway.errors import BadRequest, GatewayError, ModelNotAllowed, UnknownModel
from gateway.intake import read_body
from gateway.money import format_amount
from gateway.routing import Candidate, try_routes
from gateway.state import CALL, GATEWAY
from gateway.streaming import serve_stream
from gateway.work import Work, blame, elapsed_ms, name_failure


def make_completion_handler(
    dialect: CallerDialect,
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of one surface: the dialect is all that differs."""

    async def serve_completion(http: web.Request) -> web.StreamResponse:
        body = await read_body(http)
        work = _admit(http, dialect, dialect.parse_request(body))
        return await (serve_stream(work) if work.request.stream else _serve_json(work))

    return serve_completion


def _admit(http: web.Request, dialect: CallerDialect, request: CompletionRequest) -> Work:
    """Find the model, check that it can be sent, take the hold: one synchronous step."""
    gateway, call = http.app[GATEWAY], http[CALL]
    assert call.key is not None
    call.stream = request.stream
    model = find_model(http, request.model)
    call.model = model.id
    candidates: Sequence[Candidate] = gateway.routes.find_candidates(dialect.name, model)
    if not candidates:
        raise UnknownModel(request.model)
    context = ReplyContext(
        request=request,
        request_id=call.request_id,
        limits=make_usage_limits(request, model),
        input_estimate=estimate_input(request),
    )
    candidates, payload = choose_writable(candidates, request)
    call.provider = candidates[0].lane.provider.name
    bill = Bill(gateway, call, request, model, call.provider)
    return Work(http, gateway, call, dialect, request, model, candidates, context, bill, payload)


async def _serve_json(work: Work) -> web.Response:
    """A complete reply, held back until it is charged. A caller that leaves changes nothing."""
    call, bill = work.call, work.bill

    async def try_candidate(candidate: Candidate) -> Reply:
        call.attempts += 1
        call.provider = candidate.lane.provider.name
        payload = work.write_payload(candidate)
        body = await candidate.lane.forwarder.fetch(
            candidate.exchange, payload, work.pick_headers(candidate)
        )
        return candidate.exchange.read_reply(body, work.context)

    try:
        reply = await try_routes(work.candidates, try_candidate)
    except BaseException as error:
        bill.void(*name_failure(error))
        blame(work, error)
        raise
    call.first_byte_ms = elapsed_ms(call)
    try:
        await bill.settle("complete", 200, reply.tokens, estimated=reply.estimated)
    except GatewayError as error:
        bill.note_withdrawal(error.status)
        raise
    headers = {
        "Content-Type": "application/json",
        "x-gateway-cost": format_amount(call.cost_nano),
    }
    return web.Response(body=reply.body, headers=headers)


def find_model(http: web.Request, model_id: str) -> Model:
    """The model a request names. Raises UnknownModel, ModelNotAllowed."""
    model = http.app[GATEWAY].routes.models.get(model_id)
    if model is None:
        raise UnknownModel(model_id)
    key = http[CALL].key
    assert key is not None
    if key.models is not None and model.id not in key.models:
        raise ModelNotAllowed(model.id)
    return model


def choose_writable(
    candidates: Sequence[Candidate], request: CompletionRequest
) -> tuple[Sequence[Candidate], bytes]:
    """The routes from the first on that can carry the request, and that one's payload.

    Raises BadRequest when none can: what the first one could not carry.
    """
    refusal: BadRequest | None = None
    for position, candidate in enumerate(candidates):
        try:
            payload = candidate.exchange.write_request(request, candidate.target)
        except BadRequest as error:
            refusal = refusal or error
        else:
            return candidates[position:], payload
    assert refusal is not None
    raise refusal
