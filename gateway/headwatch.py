"""The deadline for request heads: connections that do not get round to a request are closed.

aiohttp times only the pause between two requests; a head that drips in, or never begins, it would
wait for without end. So all connections are looked at about once a second.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

SWEEP_SECONDS: Final = 1.0


class HeadWatch:
    """Since when each connection has been without a request; a `RequestHandler` is a connection."""

    def __init__(self, server: web.Server, header_seconds: float) -> None:
        self._server = server
        self._header_seconds = header_seconds
        self._waiting: dict[RequestHandler, tuple[float, float]] = {}

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(SWEEP_SECONDS, self._header_seconds / 4))
            self.sweep(loop.time())

    def sweep(self, now: float) -> None:
        waiting: dict[RequestHandler, tuple[float, float]] = {}
        for connection in self._server.connections:
            # There is no public word for "at work", nor for "has worked since".
            if connection._current_request is not None:  # noqa: SLF001
                continue
            latest = connection._next_keepalive_close_time  # noqa: SLF001
            since, seen = self._waiting.get(connection, (now, latest))
            if seen != latest:
                since = now
            if now - since >= self._header_seconds:
                connection.force_close()
            else:
                waiting[connection] = (since, latest)
        self._waiting = waiting
