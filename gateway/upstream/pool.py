"""The connections to one provider: made, kept while idle, closed in time."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final, TypedDict

from yarl import URL

from gateway.upstream.connection import Connection, InsecureConnection, Unreachable

IDLE_SECONDS: Final = 15.0
"""Time an idle connection is kept, less than by providers: one they close first costs a retry."""
KEEPALIVE_SECONDS: Final = 60
"""Idle time before the kernel's probes, which show when a NAT has dropped the flow. The default of
Linux is two hours."""
_KEEPALIVE: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_SECONDS // 4),
)
HAPPY_EYEBALLS_SECONDS: Final = 0.25
"""The head start of IPv6 that RFC 8305 recommends."""


class _Racing(TypedDict, total=False):
    """Options of `create_connection` that not every event loop has."""

    happy_eyeballs_delay: float


class Pool:
    """The connections to one origin. Limits on requests in flight are the router's."""

    def __init__(self, url: URL, connect_seconds: float) -> None:
        assert url.host is not None
        self._host = url.host
        self._port = url.port or 0
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        self._connect_seconds = connect_seconds
        self._idle: dict[Connection, float] = {}
        """Each with the time until which it is kept, the oldest first."""
        self._expiry: asyncio.TimerHandle | None = None

    async def get(self, *, fresh: bool = False) -> Connection:
        """Return the connection that was used last, or a new one (always if `fresh`).

        Raises Unreachable, InsecureConnection.
        """
        while self._idle and not fresh:
            connection, _ = self._idle.popitem()
            if connection.usable:
                return connection
        return await self._connect()

    def put(self, connection: Connection) -> None:
        """Keep a connection that may serve again."""
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.time() + IDLE_SECONDS
        if self._expiry is None:
            self._expiry = loop.call_later(IDLE_SECONDS, self._expire)

    def discard(self, connection: Connection) -> None:
        """Forget a connection that is lost."""
        self._idle.pop(connection, None)

    def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        for connection in tuple(self._idle):
            connection.close()

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        options: _Racing = {}
        if isinstance(loop, asyncio.BaseEventLoop):  # uvloop has no such option
            options["happy_eyeballs_delay"] = HAPPY_EYEBALLS_SECONDS
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._connect_seconds):
                transport, connection = await loop.create_connection(
                    lambda: Connection(self.put, self.discard), self._host, self._port, **options
                )
                for option in _KEEPALIVE:
                    transport.get_extra_info("socket").setsockopt(*option)
                if self._tls is not None:
                    await connection.start_tls(self._tls, self._host)
        except (OSError, UnicodeError) as error:  # a TimeoutError; a host that DNS cannot have
            if connection is None:
                raise Unreachable(type(error).__name__) from error
            connection.close()
            raise InsecureConnection(type(error).__name__) from error
        return connection

    def _expire(self) -> None:
        self._expiry = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for connection, until in tuple(self._idle.items()):
            if until <= now:
                del self._idle[connection]
                connection.close()
        if self._idle:
            self._expiry = loop.call_at(next(iter(self._idle.values())), self._expire)
