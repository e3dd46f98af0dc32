"""Serves `GET /metrics` at an address without a password, which callers must not reach."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from aiohttp import web

from gateway.api.state import Gateway
from gateway.base.addresses import join_address
from gateway.base.turns import measure_loop_lag, spawn
from gateway.extension import Started
from gateway.extras.metrics.counts import Metrics
from gateway.extras.metrics.families import CONTENT_TYPE
from gateway.server.listener import CannotListen, bind_host

LAG_TICK_SECONDS: Final = 0.5
"""Seconds between two measurements of the event loop's lag, so that measuring takes no noticeable time."""


def start(gateway: Gateway, address: tuple[str, int]) -> Started:
    """Count requests and commits that end from now on."""
    metrics = Metrics()
    gateway.listeners.append(metrics.note_call)
    gateway.ledger.commit_watchers.append(metrics.note_commit)
    return Started(run=partial(_serve, metrics, gateway, *address))


@asynccontextmanager
async def _serve(metrics: Metrics, gateway: Gateway, host: str, port: int) -> AsyncIterator[None]:
    """Serve until the context ends. Raises CannotListen."""

    async def show(_: web.Request) -> web.Response:
        text = await asyncio.to_thread(metrics.freeze(gateway))
        return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", show)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await _listen(runner, host, port)
        measuring = spawn(measure_loop_lag(metrics.note_lag, LAG_TICK_SECONDS), name="metrics-lag")
        yield
        measuring.cancel()
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        for one in await bind_host(host, port):
            await web.SockSite(runner, one).start()
    except OSError as error:
        raise CannotListen(
            f"cannot serve metrics on {join_address(host, port)}: {error.strerror}; set [metrics]"
            " listen in gateway.toml"
        ) from error
