"""Serve `GET /metrics`, on an address of its own, if one is configured.

Callers must not reach it: it asks for no password, and tells which models are used how much.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from gateway.addresses import join_address
from gateway.api.call import Call
from gateway.api.state import Gateway
from gateway.metrics.collected import Metrics
from gateway.metrics.families import CONTENT_TYPE
from gateway.server.listener import CannotListen
from gateway.tasks import measure_loop_lag, spawn

LAG_TICK_SECONDS: Final = 0.5
"""How often the event loop's lag is measured."""

LogCall = Callable[[Call, int], None]


class MetricsSite:
    """The metrics of one process and their address. Without an address nothing is counted."""

    def __init__(self, address: tuple[str, int] | None) -> None:
        self._address = address
        self._metrics = Metrics()

    @property
    def note_commit(self) -> Callable[[int, float], None] | None:
        return None if self._address is None else self._metrics.note_commit

    def count_calls(self, log_call: LogCall) -> LogCall:
        """Return what counts a request that ended, and logs it."""
        if self._address is None:
            return log_call

        def note(call: Call, status: int) -> None:
            self._metrics.note_call(call, status)
            log_call(call, status)

        return note

    @asynccontextmanager
    async def serve(self, gateway: Gateway) -> AsyncIterator[None]:
        """Serve until the context ends. Raises CannotListen."""
        if self._address is None:
            yield
            return
        runner = web.AppRunner(self._make_app(gateway), access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await _listen(runner, *self._address)
            measuring = spawn(
                measure_loop_lag(self._metrics.note_lag, LAG_TICK_SECONDS), name="metrics-lag"
            )
            yield
            measuring.cancel()
        finally:
            await runner.cleanup()

    def _make_app(self, gateway: Gateway) -> web.Application:
        async def show(_: web.Request) -> web.Response:
            text = await asyncio.to_thread(self._metrics.freeze(gateway))
            return web.Response(body=text.encode(), headers={"Content-Type": CONTENT_TYPE})

        app = web.Application()
        app.router.add_get("/metrics", show)
        return app


async def _listen(runner: web.AppRunner, host: str, port: int) -> None:
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        # asyncio replaces the system's words by a sentence that names the address once more.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise CannotListen(
            f"cannot serve metrics on {join_address(host, port)}: {reason}; set [metrics]"
            " listen in gateway.toml"
        ) from error
