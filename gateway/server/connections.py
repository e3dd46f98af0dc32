"""Watch callers' connections: abort those that stall, and strangers' and idle ones if they are too many.

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
from collections.abc import Iterable
from dataclasses import replace
from typing import Final, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from gateway.api.aiohttp_insides import (
    PacedConnection,
    find_last_reply,
    is_serving,
    list_connections,
    set_keepalive_timeout,
)
from gateway.config.records import Config, Server

log = logging.getLogger("gateway.connections")

SWEEP_SECONDS: Final = 1.0
"""The longest pause between two looks at all connections; their limits are many seconds."""
OWN_FILES: Final = 96
"""Open files that are no connections: databases, listening sockets, connections being closed."""
IN_FLIGHT_SHARE: Final = 3 / 8
"""The part of the open files that connections to providers may take, one per request in flight. As
more are left for callers than can be served, one who comes too many is told so by a 503."""
MIN_IN_FLIGHT: Final = 8
"""Requests at a very low limit: fewer would be a gateway that refuses nearly everybody."""
MIN_CONNECTIONS: Final = 16
"""Connections at a very low limit, so that an operator still gets through."""
CLOSED_SHARE: Final = 16
"""One connection in so many is closed at a time, because finding them means scanning all."""
STRANGERS_SHARE: Final = 4
"""One connection in so many may be a stranger's before strangers are closed for others."""
GRACE_SECONDS: Final = 0.1
"""The time in which a new caller, whose request is on its way, shows who it is."""
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

    def reconfigure(self, config: Config) -> None:
        """Take other limits; the pause between two requests is that of new connections."""
        self._max_connections = find_max_connections(config.server)
        self._header_seconds = config.server.header_seconds
        self._stall_seconds = config.server.stall_seconds
        set_keepalive_timeout(self._server, self._header_seconds)

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
        return ("waiting", find_last_reply(connection))

    def make_room(self) -> int:
        """Return how many connections may be accepted; close others if it would be none."""
        present = list_connections(self._server)
        room = self._max_connections - self.arriving - len(present)
        if room > 0:
            return room
        self._closing = [one for one in self._closing if one in present]
        room += len(self._closing)
        if room > 0:
            return room
        closed = self._find_least(self._max_connections // CLOSED_SHARE + 1)
        for connection in closed:
            assert connection.transport is not None
            connection.transport.abort()
        self._closing += closed
        self.warn(
            "%d connections are as many as open files allow: those without a key, then idle ones,"
            " are closed",
            self._max_connections,
        )
        return len(closed)

    def _find_least(self, count: int) -> list[PacedConnection]:
        """Find the connections to close: of strangers the oldest, whatever they do, else the idlest.

        Strangers showed no key. A part of all connections is theirs, as whoever is new is one. None
        are closed while all of these have only just come: in a moment they will have shown it.
        """
        strangers: list[PacedConnection] = []
        idle: list[PacedConnection] = []
        unread: list[PacedConnection] = []
        for connection in cast("Iterable[PacedConnection]", list_connections(self._server)):
            transport, is_served = connection.transport, is_serving(connection)
            if transport is None or transport.is_closing():
                continue
            if not (connection.is_known or connection.was_known):
                strangers.append(connection)
            elif is_served and connection.is_known:
                continue
            elif transport.get_write_buffer_size():
                unread.append(connection)
            elif is_served or not connection.is_asked:
                idle.append(connection)
        if len(strangers) < self._max_connections // STRANGERS_SHARE and (idle or unread):
            return heapq.nsmallest(count, idle or unread, key=find_last_reply)
        grace = asyncio.get_running_loop().time() - GRACE_SECONDS
        old = [one for one in strangers if one.made <= grace or one.is_answered]
        return heapq.nsmallest(count, old, key=lambda one: one.made)

    def warn(self, text: str, subject: object) -> None:
        """Log a warning, each text at most once a minute."""
        now = asyncio.get_running_loop().time()
        if now - self._warned.get(text, -WARN_SECONDS) >= WARN_SECONDS:
            self._warned[text] = now
            log.warning(text, subject)

    def is_idle(self) -> bool:
        """Return whether no request is being served and all replies have been read."""
        return not any(
            is_serving(connection) or has_unread_bytes(connection)
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
        server, settings.header_seconds, settings.stall_seconds, find_max_connections(settings)
    )


def find_max_connections(settings: Server) -> int:
    """Return how many callers can be connected, each request in flight with a provider."""
    return max(_count_files() - settings.max_in_flight, MIN_CONNECTIONS)


def fit_to_files(config: Config) -> Config:
    """Lower `max_in_flight`, and an account's share of it, to what open files allow."""
    most = max(int(_count_files() * IN_FLIGHT_SHARE), MIN_IN_FLIGHT)
    asked, limits = config.server.max_in_flight, config.account_limits
    if asked <= most:
        return config
    log.warning(
        "open files allow %d requests in flight, not the %d of max_in_flight: raise their limit"
        " (ulimit -n, LimitNOFILE=)",
        most,
        asked,
    )
    if limits.concurrency == max(asked // 2, 1):  # the default
        limits = replace(limits, concurrency=max(most // 2, 1))
    server = replace(config.server, max_in_flight=most)
    return replace(config, server=server, account_limits=limits)


def _count_files() -> int:
    """Return the open files that are left for connections."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (sys.maxsize if files == resource.RLIM_INFINITY else files) - OWN_FILES


def is_waiting(connection: RequestHandler) -> bool:
    """Return whether a connection has no request, or no whole head of one, and no unread reply."""
    transport = connection.transport
    if is_serving(connection) or transport is None or transport.is_closing():
        return False
    return transport.get_write_buffer_size() == 0


def has_unread_bytes(connection: RequestHandler) -> bool:
    """Return whether bytes of a reply wait for the caller to read them."""
    transport = connection.transport
    return transport is not None and transport.get_write_buffer_size() > 0
