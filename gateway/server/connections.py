"""Watch callers' connections, and close them when the server stops.

aiohttp has a time-out only for the pause between two requests. It would wait without end for a
head that drips in or never begins, and for a caller who does not read the reply. So all connections
are checked about once a second, and those that stall are aborted; strangers' and idle ones as well
if they are too many.

To stop, signals are caught and requests in flight end. If the gateway bound its address itself, the
socket stays open until the end and new requests get a 503, `/readyz` too, so that a load balancer
chooses another server.

If systemd passed the sockets, no new connection is refused. The gateway closes its copies at once,
the kernel queues new connections, and the next process serves them. They wait until the requests in
flight have ended, at most `drain_seconds`. Idle connections are closed, and others after their
reply, so that callers open new ones. (A request that is on its way to a connection being closed
fails; SDKs retry it.) A connection that was never used stays open: its caller is about to send, and
a 503 says more than a reset.

In both cases a request on an open connection gets a 503, and every reply that begins during the
drain has `Connection: close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import logging
import resource
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final, cast

from aiohttp import hdrs, web
from aiohttp.web_protocol import RequestHandler

from gateway.api import aiohttp_insides as insides
from gateway.api.state import Gateway
from gateway.base.deadlines import Clock
from gateway.base.errors import STOPPED, Overloaded
from gateway.config.records import Config, Server
from gateway.server.listener import Listener

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
            shorter = min(self._settings.header_seconds, self._settings.stall_seconds)
            # A stall lasts for a quarter beyond its limit at most.
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
            position = _find_position(connection)
            if position is None or connection.transport is None:
                continue
            since, seen = self._stalls.get(connection, (now, position))
            grew = isinstance(seen, int) and isinstance(position, int) and position > seen
            if seen != position and not grew:  # replies behind unread ones are no progress
                since = now
            is_unread = has_unread_bytes(connection)
            if self.clock.lasted(since) >= (
                settings.stall_seconds if is_unread else settings.header_seconds
            ):
                # `close` would wait for a caller who does not read.
                connection.transport.abort()
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
        """Find connections to close: the oldest of strangers, whatever they do, else the longest idle.

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
            if transport is None or transport.is_closing():
                continue
            if not (connection.is_known or connection.was_known):
                strangers.append(connection)
            # A known caller's request in flight is not cut to make room for a new connection.
            elif is_served and connection.is_known:
                continue
            elif transport.get_write_buffer_size():
                unread.append(connection)
            elif is_served or not connection.is_asked:
                idle.append(connection)
        if len(strangers) < self.max_connections // STRANGERS_SHARE and (idle or unread):
            return heapq.nsmallest(count, idle or unread, key=lambda one: one.replied)
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


def _find_position(connection: insides.PacedConnection) -> object | None:
    """Return a marker that changes when the connection makes progress; None while it is served."""
    transport = connection.transport
    if transport is not None and (unread_bytes := transport.get_write_buffer_size()):
        return unread_bytes
    if insides.is_serving(connection) or transport is None or transport.is_closing():
        return None
    if connection.is_lingering:
        return None
    return ("waiting", connection.replied)


def has_unread_bytes(connection: RequestHandler) -> bool:
    """Return whether bytes of a reply wait for the caller to read them."""
    transport = connection.transport
    return transport is not None and transport.get_write_buffer_size() > 0


STOP_SECONDS: Final = 1.0
"""Time for cancelled requests to send their last bytes: each writes one event."""
IDLE_POLL_SECONDS: Final = 0.05
"""How often a drain checks whether connections are idle, as aiohttp sends no notice."""


@dataclass(frozen=True, slots=True)
class Signals:
    """Signals that came: the first one to stop starts the drain, the second one cuts it short."""

    first: asyncio.Event = field(default_factory=asyncio.Event)
    second: asyncio.Event = field(default_factory=asyncio.Event)
    reload: asyncio.Event = field(default_factory=asyncio.Event)

    def note_stop(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


def catch_signals() -> Signals:
    """Catch all signals that would end the process without a drain; only two of them stop it.

    Call it first, so that a signal during start-up stops cleanly. A reload that was asked for before,
    while SIGHUP was blocked, is not lost.
    """
    signals = Signals()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.note_stop)
    loop.add_signal_handler(signal.SIGHUP, signals.reload.set)
    # Behind the handler: a SIGHUP that came while it was blocked would end the process.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    for number in (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, _ignore, number)
    return signals


def _ignore(number: signal.Signals) -> None:
    log.warning(
        "%s is ignored: SIGTERM stops the gateway, SIGHUP reads gateway.toml again", number.name
    )


async def close_while_draining(
    gateway: Gateway,
    request: web.Request,  # noqa: ARG001 - the signal's
    response: web.StreamResponse,
) -> None:
    """Make a reply that begins during the drain the last one of its connection."""
    if gateway.draining:
        response.headers[hdrs.CONNECTION] = "close"
        response.force_close()


async def drain(
    gateway: Gateway, connections: ConnectionWatch, listener: Listener, hurry: asyncio.Event
) -> None:
    """Wait for requests in flight; end the rest with an error in their dialect.

    The wait ends after `drain_seconds` or when `hurry` is set.
    """

    async def wait_until_idle(seconds: float, hurry: asyncio.Event) -> None:
        """Wait until all replies have been read, the time is over or `hurry` is set."""
        until = asyncio.get_running_loop().time() + seconds
        while not hurry.is_set() and not connections.is_idle():
            if listener.is_passed:
                connections.close_idle()
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return
            with contextlib.suppress(TimeoutError):
                # A second signal ends this wait at once.
                await asyncio.wait_for(hurry.wait(), min(left, IDLE_POLL_SECONDS))

    gateway.draining = True
    if listener.is_passed:
        listener.close()
    log.info("stopping: %d requests in flight", gateway.in_flight)
    await wait_until_idle(gateway.config.server.drain_seconds, hurry)
    if gateway.in_flight:
        log.warning("stopping: cutting off %d requests", gateway.in_flight)
        gateway.ticker.stop_all(Overloaded(STOPPED))
    # Not `hurry`: requests that were cut off get their error also after a second signal.
    await wait_until_idle(STOP_SECONDS, asyncio.Event())
    connections.abort_all()


async def wait_for_handlers(gateway: Gateway) -> None:
    """Wait until handlers whose connections were aborted have resolved their holds."""
    until = asyncio.get_running_loop().time() + STOP_SECONDS
    while gateway.in_flight and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
        await asyncio.sleep(IDLE_POLL_SECONDS)
