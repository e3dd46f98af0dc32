"""One stream from its first event to its last byte, and every way in which it can end.

The table of endings, and who pays, is in `surface`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Final

from aiohttp import web

from gateway.errors import GatewayError, Overloaded
from gateway.money import Tokens
from gateway.relay import LINGER_SECONDS, CallerLeft, Relay
from gateway.sink import Sink
from gateway.state import make_headers
from gateway.tasks import spawn
from gateway.work import CALLER_CLOSED_STATUS, Work, blame, elapsed_ms, name_failure

log = logging.getLogger("gateway.streaming")

USAGE_WAIT_SECONDS: Final = 2.0
"""A caller that leaves after the finish reason: how long the usage is waited for."""


async def serve_stream(work: Work) -> web.StreamResponse:
    call = work.call
    sink = Sink(work.http, make_headers(call, time.monotonic()))
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
        work.bill.void(*name_failure(error))  # the first word on the bill counts
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
        work.call.first_byte_ms = elapsed_ms(work.call)
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
    outcome, status = name_failure(error)
    blame(work, error)
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
