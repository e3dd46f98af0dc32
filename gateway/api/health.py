"""`GET /healthz` (the process lives) and `GET /readyz` (it takes requests), without a key."""

from __future__ import annotations

from aiohttp import web

from gateway.api.call import Call


async def report_health(http: web.Request, call: Call) -> web.Response:  # noqa: ARG001 - answering is the report
    return web.Response(text="alive\n")


async def report_readiness(http: web.Request, call: Call) -> web.Response:  # noqa: ARG001 - a handler
    """Answer 503 while draining, or while the ledger cannot be written."""
    gateway = call.gateway
    if gateway.draining:
        return web.Response(text="draining\n", status=503)
    if not gateway.ledger.writable:
        return web.Response(text="the ledger cannot be written\n", status=503)
    return web.Response(text="ready\n")
