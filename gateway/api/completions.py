"""The handler of the completion surfaces: read, check, hold, forward, settle, reply."""

from __future__ import annotations

from contextlib import suppress

from aiohttp import web

from gateway.api.admission import admit
from gateway.api.body import read_body
from gateway.api.json_reply import JsonReply
from gateway.api.memory import hold_reply
from gateway.api.relay import Relay
from gateway.api.sink import JsonSink, StreamSink, drain
from gateway.api.state import Call, make_headers
from gateway.money import format_amount


async def serve_completion(http: web.Request, call: Call) -> web.StreamResponse:
    """Serve a completion; surfaces differ only in the caller's dialect."""
    work = await admit(http, call, await read_body(http, call))  # no name keeps the body alive
    if work.request.stream:
        server = call.gateway.config.server
        response = web.StreamResponse()
        stream = StreamSink(
            http,
            response,
            make_headers(call),
            work.bill.wait_admitted,
            keep_alive=call.dialect.keep_alive,
            comment_seconds=server.comment_seconds,
            stall_seconds=server.stall_seconds,
        )
        await Relay(work, stream).run()
        if unread_bytes := stream.unread_bytes:
            hold_reply(call, unread_bytes)
            with suppress(ConnectionError):
                await drain(http)
        return response
    sink = JsonSink()
    await Relay(work, sink).run()
    return JsonReply(call, sink.body, {"x-gateway-cost": format_amount(call.cost_nano)})
