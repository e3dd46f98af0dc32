"""Abort callers' connections that stall: an incomplete request head, or a reply that is not read.

aiohttp has a time-out only for the pause between two requests. It would wait without end for a
head that drips in or never begins, and for a caller who does not read the reply. So all connections
are checked about once a second.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

SWEEP_SECONDS: Final = 1.0
"""The longest pause between two looks at all connections; their limits are many seconds."""

Stall = tuple[float, object]
"""When a connection stalled, and its position then. A changed position means progress."""


class ConnectionWatch:
    """Aborts connections that stall longer than their limit; a `RequestHandler` is a connection."""

    def __init__(self, server: web.Server, header_seconds: float, stall_seconds: float) -> None:
        self._server = server
        self._header_seconds = header_seconds
        self._stall_seconds = stall_seconds
        self._stalls: dict[RequestHandler, Stall] = {}

    async def run(self) -> None:
        """Check all connections periodically, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(
                min(SWEEP_SECONDS, self._header_seconds / 4, self._stall_seconds / 4)
            )
            self.sweep(loop.time())

    def sweep(self, now: float) -> None:
        """Abort every connection that has stalled for its limit."""
        stalls: dict[RequestHandler, Stall] = {}
        for connection in self._server.connections:
            position = self._find_position(connection)
            if position is None or connection.transport is None:
                continue
            since, seen = self._stalls.get(connection, (now, position))
            if seen != position:
                since = now
            limit = self._stall_seconds if has_unread_bytes(connection) else self._header_seconds
            if now - since >= limit:
                connection.transport.abort()
            else:
                stalls[connection] = (since, position)
        self._stalls = stalls

    def _find_position(self, connection: RequestHandler) -> object | None:
        """Return what a connection waits for; None while its request is being served."""
        if has_unread_bytes(connection):
            assert connection.transport is not None
            return ("unread", connection.transport.get_write_buffer_size())
        # aiohttp has no public API that tells whether a connection serves a request, or has since.
        if connection._request_in_progress:  # noqa: SLF001
            return None
        return ("waiting", connection._next_keepalive_close_time)  # noqa: SLF001

    def is_idle(self) -> bool:
        """Return whether no request is being served and all replies have been read."""
        return not any(
            connection._request_in_progress or has_unread_bytes(connection)  # noqa: SLF001
            for connection in self._server.connections
        )

    def abort_all(self) -> None:
        """Abort every connection, in flight or not."""
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()


def has_unread_bytes(connection: RequestHandler) -> bool:
    """Return whether bytes of a reply wait for the caller to read them."""
    transport = connection.transport
    return transport is not None and transport.get_write_buffer_size() > 0
