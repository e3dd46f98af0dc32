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

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from gateway.billing import Bill, estimate_input, make_usage_limits
from gateway.config import Model
from gateway.dialects.base import CallerDialect, CompletionRequest, Exchange, Reply, ReplyContext
from gateway.errors import (
    BadRequest,
    GatewayError,
    InternalError,
    LedgerUnavailable,
    ModelNotAllowed,
    Overloaded,
    UnknownModel,
    UpstreamError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from gateway.intake import read_body
from gateway.ledger.base import Outcome
from gateway.money import Tokens, format_amount
from gateway.relay import LINGER_SECONDS, CallerLeft, Relay
from gateway.routing import Candidate, try_routes
from gateway.sink import Sink
from gateway.state import CALL, GATEWAY, Call, Gateway, describe_call
from gateway.tasks import spawn

log = logging.getLogger("gateway.surface")

USAGE_WAIT_SECONDS: Final = 2.0
"""A caller that leaves after the finish reason: how long the usage is waited for."""
CALLER_CLOSED_STATUS: Final = 499
"""Recorded for a caller that left before it got a status; nobody ever sees it on the wire."""


@dataclass(frozen=True, slots=True)
class Work:
    """One admitted request and all that serving it takes."""

    http: web.Request
    gateway: Gateway
    call: Call
    dialect: CallerDialect
    request: CompletionRequest
    model: Model
    candidates: Sequence[Candidate]
    context: ReplyContext
    bill: Bill
    first_payload: bytes
    """The upstream's request for the first candidate: nearly always the only one needed."""

    def write_payload(self, candidate: Candidate) -> bytes:
        """Raises UpstreamUnavailable for a later route that cannot carry the request."""
        if candidate is self.candidates[0]:
            return self.first_payload
        try:
            return candidate.exchange.write_request(self.request, candidate.target)
        except BadRequest as error:
            raise UpstreamUnavailable(
                "The upstream provider is not available, and another cannot take this request.",
                next_route=True,
                blames_provider=False,
            ) from error

    def pick_headers(self, candidate: Candidate) -> dict[str, str]:
        """The caller's headers that go on to this upstream."""
        return pick_headers(self.http, candidate.exchange)


def make_completion_handler(
    dialect: CallerDialect,
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of one surface: the dialect is all that differs."""

    async def serve_completion(http: web.Request) -> web.StreamResponse:
        body = await read_body(http)
        work = _admit(http, dialect, dialect.parse_request(body))
        return await (_serve_stream(work) if work.request.stream else _serve_json(work))

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
        bill.void(*_name_failure(error))
        _blame(work, error)
        raise
    call.first_byte_ms = _elapsed_ms(call)
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


async def _serve_stream(work: Work) -> web.StreamResponse:
    call = work.call
    sink = Sink(work.http, describe_call(call, time.monotonic()))
    relay = Relay(
        call=call,
        bill=work.bill,
        dialect=work.dialect,
        context=work.context,
        work=work,
        sink=sink,
        server=work.gateway.config.server,
    )
    work.gateway.watch.add(relay)
    upstream = spawn(relay.run(work.candidates), name="upstream")
    try:
        await _pass_stream(work, relay, sink)
        await _finish_stream(work, relay, sink)
    except asyncio.CancelledError:
        _stop_stream(work, relay, sink)
        raise
    except Exception as error:
        work.bill.void(*_name_failure(error))  # the first word on the bill counts
        if not sink.opened:
            raise
        log.exception("%s: a stream could not be ended", call.request_id)
        sink.abort()
    finally:
        relay.close_sink()
        work.gateway.watch.remove(relay)
        linger = LINGER_SECONDS if relay.ending is None and relay.done.done() else 0.0
        asyncio.get_running_loop().call_later(linger, upstream.cancel)
    return sink.response


async def _pass_stream(work: Work, relay: Relay, sink: Sink) -> None:
    """Send the head with the first event and let the rest flow, until the stream is over."""
    await relay.first
    if not relay.begun:
        return
    try:
        if not sink.closed:
            await relay.open_sink()
    except ConnectionError:
        relay.end(CallerLeft())
    else:
        work.call.first_byte_ms = _elapsed_ms(work.call)
        relay.flow()
    await relay.done  # with the caller gone, the watch sees to that


async def _finish_stream(work: Work, relay: Relay, sink: Sink) -> None:
    """The stream ended: charge what is owed, then tell the caller."""
    match relay.ending:
        case None:
            await _finish_complete(work, relay, sink)
        case CallerLeft():
            await _finish_left(work, relay, sink)
        case GatewayError() as error:
            await _finish_failed(work, relay, sink, error)
        case unexpected:
            raise AssertionError(unexpected)


async def _finish_complete(work: Work, relay: Relay, sink: Sink) -> None:
    assert relay.pipeline is not None
    tokens, estimated = relay.pipeline.measure()
    try:
        await work.bill.settle("complete", 200, tokens, estimated=estimated)
    except GatewayError as error:
        _send_error(work, relay, sink, error)
    else:
        sink.end(relay.pipeline.finish())


async def _finish_failed(work: Work, relay: Relay, sink: Sink, error: GatewayError) -> None:
    """Before the first byte a status, after it an error event; nothing delivered costs nothing."""
    outcome, status = _name_failure(error)
    _blame(work, error)
    pipeline = relay.pipeline
    if pipeline is None or not pipeline.delivered or not sink.opened:
        work.bill.void(outcome, 200 if sink.opened else status)
    else:
        tokens, estimated = pipeline.measure()
        with suppress(GatewayError):  # one failure is told; a charge that can be stays queued
            await work.bill.settle(outcome, 200, tokens, estimated=estimated)
    if not sink.opened:
        raise error
    _send_error(work, relay, sink, error)


async def _finish_left(work: Work, relay: Relay, sink: Sink) -> None:
    """Nobody to tell any more; what the provider did is paid for."""
    status = 200 if sink.opened else CALLER_CLOSED_STATUS
    sink.abort()
    if not relay.attempt.connected or relay.provider is None:
        work.bill.void("caller_left", status)
        return
    if relay.provider.on_disconnect == "drain":
        relay.drain(None)
        await relay.done
    elif relay.pipeline is not None and relay.pipeline.finished:
        relay.drain(USAGE_WAIT_SECONDS)
        await relay.done
    pipeline = relay.pipeline
    if isinstance(relay.ending, GatewayError) and (pipeline is None or not pipeline.delivered):
        work.bill.void("caller_left", status)  # the provider refused, or broke off with nothing
        return
    tokens, estimated = Tokens(input=work.context.input_estimate), True
    if pipeline is not None:
        tokens, estimated = pipeline.measure()
    work.bill.settle("caller_left", status, tokens, estimated=estimated)


def _stop_stream(work: Work, relay: Relay, sink: Sink) -> None:
    """The gateway is being stopped and waits no longer. Synchronous: nothing may interrupt it."""
    pipeline = relay.pipeline
    if work.call.outcome is None:
        if pipeline is not None and pipeline.delivered:
            tokens, estimated = pipeline.measure()
            work.bill.settle("shutdown", 200, tokens, estimated=estimated)
        else:
            work.bill.void("shutdown", 503)
    if sink.opened and not relay.mid_event:
        error = Overloaded("The gateway was stopped before this reply was complete.")
        sink.send(work.dialect.render_error_event(error, work.call.request_id))


def _send_error(work: Work, relay: Relay, sink: Sink, error: GatewayError) -> None:
    """A status where no head was sent, else one error event, or a cut where none can stand."""
    if not sink.opened:
        raise error
    if relay.mid_event:
        sink.abort()
    else:
        sink.end(work.dialect.render_error_event(error, work.call.request_id))


def pick_headers(http: web.Request, exchange: Exchange) -> dict[str, str]:
    """What an exchange passes on; several lines of a header are one, an empty one is none."""
    found = {
        name: ", ".join(filter(None, http.headers.getall(name, ())))
        for name in exchange.passed_headers
    }
    return {name: value for name, value in found.items() if value}


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


def _name_failure(error: BaseException) -> tuple[Outcome, int]:
    """The outcome and status under which a failure is recorded."""
    for kind, outcome, status in _FAILURES:
        if isinstance(error, kind):
            return outcome, error.status if isinstance(error, GatewayError) else status
    return "internal_error", InternalError.status


_FAILURES: Final[tuple[tuple[type[BaseException], Outcome, int], ...]] = (
    (UpstreamTimeout, "upstream_timeout", 502),
    (UpstreamError, "upstream_error", 502),
    (BadRequest, "rejected", 400),
    (LedgerUnavailable, "ledger_error", 503),
    (Overloaded, "shutdown", 503),
    (asyncio.CancelledError, "shutdown", 503),
    (ConnectionError, "caller_left", CALLER_CLOSED_STATUS),
)


def _blame(work: Work, error: BaseException) -> None:
    """An upstream that finds fault speaks of its own model name: say ours."""
    if isinstance(error, GatewayError):
        for candidate in work.candidates:
            if candidate.lane.provider.name == work.call.provider:
                error.replace_name(candidate.target.upstream_model, work.model.id)
                return


def _elapsed_ms(call: Call) -> int:
    return int((time.monotonic() - call.started) * 1000)
