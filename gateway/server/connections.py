"""Watch callers' connections: abort those that stall, and idle ones when there are too many.

aiohttp has a time-out only for the pause between two requests. It would wait without end for a
head that drips in or never begins, and for a caller who does not read the reply. So all connections
are checked about once a second.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import resource
import sys
from typing import Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gateway.config import Config, Server

log = logging.getLogger("gateway.connections")

SWEEP_SECONDS: Final = 1.0
"""The longest pause between two looks at all connections; their limits are many seconds."""
OWN_FILES: Final = 96
"""Open files that are no connections: databases, listening sockets, connections being closed."""
FILES_PER_CALLER: Final = 2
"""A connection, and another one to the provider while a request is in flight."""
MIN_CONNECTIONS: Final = 16
"""Connections at a very low limit, so that an operator still gets through."""
CLOSED_SHARE: Final = 16
"""One connection in so many is closed at a time, because finding the idlest means scanning all."""
WARN_SECONDS: Final = 60.0
"""The pause between two warnings of one kind: a flood of callers must not flood the log."""

Stall = tuple[float, object]
"""When a connection stalled, and its position then. A changed position means progress."""


class ConnectionWatch:
    """Aborts connections that stall longer than their limit; a `RequestHandler` is a connection."""

    def __init__(
        self,
        server: web.Server,
        header_seconds: float,
        stall_seconds: float,
        max_connections: int = sys.maxsize,
    ) -> None:
        self._server = server
        self._header_seconds = header_seconds
        self._stall_seconds = stall_seconds
        self._max_connections = max_connections
        self._stalls: dict[RequestHandler, Stall] = {}
        self.arriving = 0
        """Connections that were accepted and are not yet the server's."""
        self._closing: list[RequestHandler] = []
        """Aborted to make room; the server has them until their tasks have ended."""
        self._warned: dict[str, float] = {}

    def go_by(self, config: Config) -> None:
        """Take other limits; the pause between two requests is that of new connections."""
        self._header_seconds = config.server.header_seconds
        self._stall_seconds = config.server.stall_seconds
        # aiohttp has no public API for it.
        self._server._kwargs["keepalive_timeout"] = self._header_seconds  # noqa: SLF001

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
        if not is_waiting(connection):
            return None
        return ("waiting", connection._next_keepalive_close_time)  # noqa: SLF001

    def make_room(self) -> int:
        """Return how many connections may be accepted; close idle ones if it would be none."""
        present = self._server._connections  # noqa: SLF001 - the public property copies them
        room = self._max_connections - self.arriving - len(present)
        if room > 0:
            return room
        self._closing = [one for one in self._closing if one in present]
        room += len(self._closing)
        if room > 0:
            return room
        idlest = self._find_idlest(self._max_connections // CLOSED_SHARE + 1)
        for connection in idlest:
            assert connection.transport is not None
            connection.transport.abort()
        self._closing += idlest
        self.warn(
            "%d connections are as many as open files allow: idle ones are closed",
            self._max_connections,
        )
        return len(idlest)

    def _find_idlest(self, count: int) -> list[RequestHandler]:
        """Find connections that wait for a request: those that never had one, then the oldest."""
        now = asyncio.get_running_loop().time()

        def sort_key(connection: RequestHandler) -> tuple[bool, float]:
            since, _ = self._stalls.get(connection, (now, None))
            return connection._request_count > 0, since  # noqa: SLF001

        idle = filter(is_waiting, self._server.connections)
        return heapq.nsmallest(count, idle, key=sort_key)

    def warn(self, text: str, subject: object) -> None:
        """Log a warning, each text at most once a minute."""
        now = asyncio.get_running_loop().time()
        if now - self._warned.get(text, -WARN_SECONDS) >= WARN_SECONDS:
            self._warned[text] = now
            log.warning(text, subject)

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


def watch_connections(server: web.Server, settings: Server) -> ConnectionWatch:
    """Make the watch of a server, as its settings and the limit of open files say."""
    return ConnectionWatch(
        server, settings.header_seconds, settings.stall_seconds, find_max_connections()
    )


def find_max_connections() -> int:
    """Return how many callers can be connected, each with a request to a provider."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return sys.maxsize
    return max((files - OWN_FILES) // FILES_PER_CALLER, MIN_CONNECTIONS)


def is_waiting(connection: RequestHandler) -> bool:
    """Return whether a connection has no request, or no whole head of one, and no unread reply."""
    # aiohttp has no public API that tells whether a connection serves a request, or has since.
    is_serving = connection._request_in_progress  # noqa: SLF001
    transport = connection.transport
    if is_serving or transport is None or transport.is_closing():
        return False
    return transport.get_write_buffer_size() == 0


def has_unread_bytes(connection: RequestHandler) -> bool:
    """Return whether bytes of a reply wait for the caller to read them."""
    transport = connection.transport
    return transport is not None and transport.get_write_buffer_size() > 0
