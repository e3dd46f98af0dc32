"""The handler of the completion surfaces: read, check, hold, forward, settle, reply."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from aiohttp import web

from gateway.api.admission import Completion, admit
from gateway.api.body import read_body
from gateway.api.held_reply import HeldReply
from gateway.api.relay import Relay
from gateway.api.sink import JsonSink, StreamSink
from gateway.api.state import GATEWAY, make_headers
from gateway.dialects import Caller
from gateway.money import format_amount


def make_completion_handler(
    dialect: Caller,
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Make the handler of one surface; surfaces differ only in their dialect."""

    async def serve_completion(http: web.Request) -> web.StreamResponse:
        work = await admit(http, dialect, await read_body(http))  # no name keeps the body alive
        return await (_serve_stream(http, work) if work.request.stream else _serve_json(http, work))

    return serve_completion


async def _serve_stream(http: web.Request, work: Completion) -> web.StreamResponse:
    gateway = http.app[GATEWAY]
    server = gateway.config.server
    sink = StreamSink(
        http,
        make_headers(work.call, time.monotonic()),
        work.bill.wait_admitted,
        keep_alive=work.dialect.keep_alive,
        comment_seconds=server.comment_seconds,
        stall_seconds=server.stall_seconds,
    )
    await Relay(work, sink, gateway.ticker).run()
    return sink.response


async def _serve_json(http: web.Request, work: Completion) -> web.Response:
    sink = JsonSink()
    await Relay(work, sink, http.app[GATEWAY].ticker).run()
    headers = {
        "Content-Type": "application/json",
        "x-gateway-cost": format_amount(work.call.cost_nano),
    }
    return HeldReply(body=sink.body, headers=headers)
