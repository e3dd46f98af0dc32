"""Connections of callers that stand still: heads that do not come, replies that nobody takes.

aiohttp times only the pause between two requests. A head that drips in, or never begins, it would
wait for without end, and a reply that the caller does not read it keeps for as long. So all
connections are looked at about once a second.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

SWEEP_SECONDS: Final = 1.0

Still = tuple[float, object]
"""Since when a connection stands still, and at what: if that changes, it moved."""


class CallerWatch:
    """Since when each connection stands still; a `RequestHandler` is a connection."""

    def __init__(self, server: web.Server, header_seconds: float, stall_seconds: float) -> None:
        self._server = server
        self._header_seconds = header_seconds
        self._stall_seconds = stall_seconds
        self._still: dict[RequestHandler, Still] = {}

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(
                min(SWEEP_SECONDS, self._header_seconds / 4, self._stall_seconds / 4)
            )
            self.sweep(loop.time())

    def sweep(self, now: float) -> None:
        still: dict[RequestHandler, Still] = {}
        for connection in self._server.connections:
            place = self._locate(connection)
            if place is None or connection.transport is None:
                continue
            since, seen = self._still.get(connection, (now, place))
            if seen != place:
                since = now
            limit = self._stall_seconds if is_stalled(connection) else self._header_seconds
            if now - since >= limit:
                connection.transport.abort()
            else:
                still[connection] = (since, place)
        self._still = still

    def _locate(self, connection: RequestHandler) -> object | None:
        """Where a connection stands still, if it does; None while its request is being served."""
        if is_stalled(connection):
            assert connection.transport is not None
            return ("unread", connection.transport.get_write_buffer_size())
        # There is no public word for "at work", nor for "has worked since".
        if connection._request_in_progress:  # noqa: SLF001
            return None
        return ("waiting", connection._next_keepalive_close_time)  # noqa: SLF001

    def is_idle(self) -> bool:
        """Whether no request is being served and all replies are out."""
        return not any(
            connection._request_in_progress or is_stalled(connection)  # noqa: SLF001
            for connection in self._server.connections
        )

    def abort_all(self) -> None:
        """Cut every connection: the gateway waits no longer."""
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()


def is_stalled(connection: RequestHandler) -> bool:
    """Whether bytes wait for the caller to take them."""
    transport = connection.transport
    return transport is not None and transport.get_write_buffer_size() > 0
