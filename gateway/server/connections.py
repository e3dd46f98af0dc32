"""Watch callers' connections: abort those that stall, or that are too many.

aiohttp has a time-out only for the pause between two requests. It would wait without end for a
head that drips in or never begins, and for a caller who does not read the reply. So all connections
are checked about once a second, and those that stall are aborted; strangers' and idle ones as well
if they are too many.
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

from gateway.api import aiohttp_insides as insides
from gateway.base.deadlines import Clock
from gateway.config.records import Config, Server

log = logging.getLogger("gateway.connections")

SWEEP_SECONDS: Final = 1.0
"""The longest pause between two looks at all connections; their limits are many seconds."""
OWN_FILES: Final = 96
"""Open files that are no connections: databases, listening sockets, connections being closed."""
IN_FLIGHT_SHARE: Final = 3 / 8
"""The part of the open files that connections to providers may take, one per request in flight. More
files are left for callers than can be served, so that excess callers can get a 503."""
MIN_IN_FLIGHT: Final = 8
"""Requests at a very low limit: fewer would be a gateway that refuses nearly everybody."""
MIN_CONNECTIONS: Final = 16
"""Connections at a very low limit, so that an operator still gets through."""
CLOSED_SHARE: Final = 16
"""One connection in so many is closed to make room: to find them means to scan all, so it should not be often."""
STRANGERS_SHARE: Final = 4
"""One connection in so many may be a stranger's before strangers are closed for others: fewer are new
callers, more are a flood."""
GRACE_SECONDS: Final = 0.1
"""Seconds in which a new caller, whose request is on its way, shows who it is: a round trip takes less on
most networks."""
WARN_SECONDS: Final = 60.0
"""The pause between two warnings of one kind: a flood of callers must not flood the log."""

Position = int | tuple[str, float]
"""The bytes that a caller has not read; or `HEAD` or `IDLE`, and when its last reply ended."""
Stall = tuple[float, Position]
"""When a connection stalled, and its position then. A changed position means progress."""
HEAD: Final = "head"
"""A request's head has begun, or the first one is awaited."""
IDLE: Final = "idle"
"""A request was answered and no byte of another has come: a proxy keeps the connection for its next."""


class ConnectionWatch:
    """Aborts connections that stall longer than their limit; a `RequestHandler` is a connection."""

    def __init__(self, server: web.Server, settings: Server) -> None:
        self._server = server
        self._settings = settings
        self.max_connections = find_max_connections(settings)
        self.clock = Clock()
        self._stalls: dict[RequestHandler, Stall] = {}
        self.arriving = 0
        """Connections that were accepted and are not yet the server's."""
        self._closing: list[RequestHandler] = []
        """Aborted to make room; the server has them until their tasks have ended."""
        self._warned: dict[str, float] = {}

    def reconfigure(self, config: Config) -> None:
        """Apply new limits."""
        self._settings = config.server
        self.max_connections = find_max_connections(config.server)

    async def run(self) -> None:
        """Check all connections periodically, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            settings = self._settings
            shorter = min(
                settings.header_seconds, settings.keep_alive_seconds, settings.stall_seconds
            )
            # A stall is noticed at most a quarter of its limit late.
            pause = min(SWEEP_SECONDS, shorter / 4)
            self.clock.expect(loop.time(), pause)
            await asyncio.sleep(pause)
            self.clock.move(loop.time())
            self.sweep()

    def sweep(self) -> None:
        """Abort every connection that has stalled for its limit."""
        now = self.clock.seconds
        # Made anew by each sweep, so that it keeps no connection alive that has ended.
        stalls: dict[RequestHandler, Stall] = {}
        settings = self._settings
        for connection in cast("Iterable[insides.PacedConnection]", self._server.connections):
            transport = connection.transport
            if transport is None or (position := _find_position(connection, transport)) is None:
                continue
            since, seen = self._stalls.get(connection, (now, position))
            grew = isinstance(seen, int) and isinstance(position, int) and position > seen
            if seen != position and not grew:  # replies behind unread ones are no progress
                since = now
            if self.clock.lasted(since) >= _find_limit(position, settings):
                # `close` would wait for a caller who does not read.
                transport.abort()
            else:
                stalls[connection] = (since, position)
        self._stalls = stalls

    def make_room(self) -> int:
        """Return how many connections may be accepted; close others if it would be none."""
        present = insides.list_connections(self._server)
        room = self.max_connections - self.arriving - len(present)
        if room > 0:
            return room
        self._closing = [one for one in self._closing if one in present]
        # Aborted connections end in a moment, so no others have to be closed for the same caller.
        room += len(self._closing)
        if room > 0:
            return room
        closed = self._find_least(self.max_connections // CLOSED_SHARE + 1)
        for connection in closed:
            assert connection.transport is not None
            connection.transport.abort()
        self._closing += closed
        self.warn(
            "%d connections are as many as open files allow: those without a key, then idle ones,"
            " are closed",
            self.max_connections,
        )
        return len(closed)

    def _find_least(self, count: int) -> list[insides.PacedConnection]:
        """Find connections to close: strangers, those at rest first, then the oldest; else the longest idle.

        Strangers have shown no key. A part of all connections is reserved for them, as every new caller
        is one. While all strangers have only just connected, none is closed: in a moment they may show a
        key.
        """
        strangers: list[insides.PacedConnection] = []
        idle: list[insides.PacedConnection] = []
        unread: list[insides.PacedConnection] = []
        present = cast("Iterable[insides.PacedConnection]", insides.list_connections(self._server))
        for connection in present:
            transport, is_served = connection.transport, insides.is_serving(connection)
            visitor = connection.visitor
            if transport is None or transport.is_closing():
                continue
            if not visitor.was_known:
                strangers.append(connection)
            # A known caller's request in flight is not cut to make room for a new connection.
            elif is_served and visitor.is_known:
                continue
            elif transport.get_write_buffer_size():
                unread.append(connection)
            elif is_served or not connection.is_asked:
                idle.append(connection)
        if len(strangers) < self.max_connections // STRANGERS_SHARE and (idle or unread):
            return heapq.nsmallest(count, idle or unread, key=lambda one: one.replied)
        grace = asyncio.get_running_loop().time() - GRACE_SECONDS
        old = [one for one in strangers if one.made <= grace or one.is_answered]
        return heapq.nsmallest(count, old, key=lambda one: (not one.is_at_rest, one.made))

    def warn(self, text: str, subject: object) -> None:
        """Log a warning, each text at most once a minute."""
        now = asyncio.get_running_loop().time()
        if now - self._warned.get(text, -WARN_SECONDS) >= WARN_SECONDS:
            self._warned[text] = now
            log.warning(text, subject)

    def is_idle(self) -> bool:
        """Return whether no request is being served and all replies have been read."""
        present = self._server.connections
        return not any(insides.is_serving(one) or has_unread_bytes(one) for one in present)

    def close_idle(self) -> None:
        """Close connections that idle between two requests; the others close after their reply."""
        for connection in tuple(self._server.connections):
            if insides.is_between_requests(connection):
                # A reply whose caller has not read it yet would be lost.
                if not has_unread_bytes(connection):
                    connection.force_close()
            elif insides.has_whole_request(connection):
                connection.close()  # takes effect after the reply; further requests are not read

    def abort_all(self) -> None:
        """Abort every connection, in flight or not."""
        for connection in self._server.connections:
            if connection.transport is not None:
                connection.transport.abort()


def find_max_connections(settings: Server) -> int:
    """Return how many callers can be connected, each request in flight with a provider."""
    return max(_count_files() - settings.max_in_flight, MIN_CONNECTIONS)


def raise_file_limit() -> None:
    """Raise the limit of open files: a request needs two, and shells usually allow 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


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
    # RLIM_INFINITY is a negative number.
    return (sys.maxsize if files == resource.RLIM_INFINITY else files) - OWN_FILES


def _find_position(
    connection: insides.PacedConnection, transport: asyncio.Transport
) -> Position | None:
    """Return a marker that changes when the connection makes progress; None while it is served."""
    if unread_bytes := transport.get_write_buffer_size():
        return unread_bytes
    if insides.is_serving(connection) or transport.is_closing() or connection.is_lingering:
        return None
    return (IDLE if connection.is_at_rest else HEAD, connection.replied)


def _find_limit(position: Position, settings: Server) -> float:
    """Return how long a connection may stay at a position."""
    if isinstance(position, int):
        return settings.stall_seconds
    return settings.keep_alive_seconds if position[0] == IDLE else settings.header_seconds


def has_unread_bytes(connection: RequestHandler) -> bool:
    """Return whether bytes of a reply wait for the caller to read them."""
    transport = connection.transport
    return transport is not None and transport.get_write_buffer_size() > 0
