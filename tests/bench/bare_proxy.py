"""The yardstick of the bench: a simple pass-through proxy with aiohttp.

It has no keys, balances or prices, and nothing is tuned but the number of its connections.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

from tests.bench.processes import raise_file_limit

UPSTREAM = web.AppKey("upstream", str)
SESSION = web.AppKey("session", aiohttp.ClientSession)


async def open_session(app: web.Application) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        app[SESSION] = session
        yield


async def forward(request: web.Request) -> web.StreamResponse:
    body = await request.read()
    headers = {"Content-Type": request.headers["Content-Type"]}
    url = request.app[UPSTREAM] + request.path
    async with request.app[SESSION].post(url, data=body, headers=headers) as upstream:
        kind = upstream.headers["Content-Type"]
        if not kind.startswith("text/event-stream"):
            return web.Response(
                status=upstream.status, body=await upstream.read(), headers={"Content-Type": kind}
            )
        response = web.StreamResponse(status=upstream.status, headers={"Content-Type": kind})
        await response.prepare(request)
        async for chunk in upstream.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response


def make_app(upstream: str) -> web.Application:
    app = web.Application()
    app[UPSTREAM] = upstream
    app.cleanup_ctx.append(open_session)
    app.router.add_post("/{path:.*}", forward)
    return app


def make_loop() -> asyncio.AbstractEventLoop:
    """Make the event loop that the gateway would use."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upstream", required=True)
    options = parser.parse_args()
    raise_file_limit()
    listening = socket.create_server(("127.0.0.1", 0))
    print(listening.getsockname()[1], flush=True)
    web.run_app(make_app(options.upstream), sock=listening, print=None, loop=make_loop())
