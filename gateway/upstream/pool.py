"""The idle connections to one origin, and new ones."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from gateway.upstream.connection import Connection
from gateway.upstream.dial import Dialer

IDLE_SECONDS: Final = 15.0
"""Time an idle connection is kept, less than by providers: one they close first costs a retry."""


class Pool:
    """The connections to one origin. `ProviderState.enter` limits the requests in flight."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._idle: dict[Connection, float] = {}
        """Each with the time until which it is kept, the oldest first."""
        self._expiry: asyncio.TimerHandle | None = None
        self._closed = False

    async def connect(self) -> Connection:
        """Make a new connection. Raises what `Dialer.dial` raises."""
        return await self._dialer.dial(lambda: Connection(self.put, self.discard))

    def take(self) -> Connection | None:
        """Return the connection that was used last; None if none is idle."""
        while self._idle:
            # The provider is least likely to have closed the latest one, and the others can expire.
            connection, until = self._idle.popitem()
            if connection.usable and time.monotonic() < until:
                return connection
            connection.close()  # also one that is too old, as this process did not run meanwhile
        return None

    def put(self, connection: Connection) -> None:
        """Keep a connection that may serve again."""
        # A response has ended after a reload: nobody takes from this pool any more.
        if self._closed:
            connection.close()
            return
        self._idle[connection] = time.monotonic() + IDLE_SECONDS
        if self._expiry is None:
            self._expiry = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._expire)

    def discard(self, connection: Connection) -> None:
        """Forget a connection that is lost."""
        self._idle.pop(connection, None)

    def close(self) -> None:
        """Close idle connections at once, and the others after their response."""
        self._closed = True
        if self._expiry is not None:
            self._expiry.cancel()
        for connection in tuple(self._idle):
            connection.close()

    def _expire(self) -> None:
        self._expiry = None
        now = time.monotonic()
        for connection, until in tuple(self._idle.items()):
            if until <= now:
                del self._idle[connection]
                connection.close()
        if self._idle:
            seconds = next(iter(self._idle.values())) - now
            self._expiry = asyncio.get_running_loop().call_later(seconds, self._expire)
