"""Connections to one provider: opened, used for a request at a time, kept while idle.

What comes in is pushed: `data_received` reads the response and hands its body straight to the
receiver, in the same call. Not reading (pausing the transport) is the only buffer there is.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any, Final, Protocol, cast

from yarl import URL

from gateway.errors import GatewayError, InternalError
from gateway.http1 import BadResponse, Head, ResponseReader

log = logging.getLogger("gateway.connection")

_LAST_WORDS: Final = frozenset({101, 204})
"""Statuses that may be followed by what is no response."""
IDLE_SECONDS: Final = 15.0
"""Below what providers keep: a connection they close first costs a retry."""
EARLY_BYTES: Final = 256 << 10
"""What may come of a body before anybody asked for it."""
HAPPY_EYEBALLS_SECONDS: Final = 0.25


class Unreachable(Exception):
    """No connection: refused, no such name, or not within the time."""


class InsecureConnection(Exception):
    """There is a connection, but no trust: TLS failed."""


class Broken(Exception):
    """The connection ended, or what came is no HTTP, before the response was whole."""


class Receiver(Protocol):
    """Where a body's bytes go."""

    def receive(self, data: bytes) -> bool:
        """Take bytes; False asks to wait for `ready` before more come. May raise GatewayError."""

    async def ready(self) -> None:
        """Return when more may come."""


class Connection(asyncio.Protocol):
    """One connection, and the response under way on it."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        self._receiver: Receiver | None = None
        self._early: list[bytes] = []
        self._early_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._must_wait = False
        self.served = 0
        """Responses that were read to their end."""
        self.answered = False
        """Whether any byte of the response under way came."""

    # What the user of the connection calls

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_stale(self) -> bool:
        """Whether a failure may be the provider's having closed an idle connection."""
        return self.served > 0 and not self.answered

    def start(self, request: bytes) -> None:
        """Send a whole request."""
        assert self._transport is not None
        self._reader = ResponseReader()
        self.answered = False
        self._transport.write(request)

    async def read_head(self) -> Head:
        """Status and headers. Raises Broken, or what `fail` was called with."""
        reader = self._reader
        assert reader is not None
        while reader.head is None:
            await self._wait()
        return reader.head

    async def deliver(self, receiver: Receiver) -> None:
        """Hand the body to `receiver` until its end. Raises Broken, or what the receiver raised."""
        reader, transport = self._reader, self._transport
        assert reader is not None
        self._receiver = receiver
        if self._early:
            early = b"".join(self._early)
            self._early.clear()
            self._push(early)
        while not reader.done or self._must_wait:
            if not self._must_wait:
                await self._wait()
                continue
            await receiver.ready()
            self._must_wait = False
            if transport is not None:
                transport.resume_reading()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Done with the response: the connection goes back to the pool, or is cut when unread."""
        may_serve_again = self._may_serve_again()
        self._error = None
        self._reader = self._receiver = None
        self._early.clear()
        self._early_bytes = 0
        self._must_wait = False
        if may_serve_again:
            self.served += 1
            self._pool.put(self)
        else:
            self._abort()

    def fail(self, error: Exception) -> None:
        """Whoever waits for the response gets `error`."""
        if self._error is None:
            self._error = error
        self._wake()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are asyncio's in all but their base class
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.answered = True
        reader = self._reader
        if reader is None or self._error is not None:
            self._abort()  # an answer to nothing
            return
        had_head = reader.head is not None
        try:
            body = reader.feed(data)
        except BadResponse as error:
            if error.body:
                self._push(error.body)
            self.fail(Broken(str(error)))
            self._abort()
            return
        if body:
            self._push(body)
        if reader.done or not had_head:
            self._wake()

    def eof_received(self) -> None:
        return

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._pool.discard(self)
        reader = self._reader
        if reader is None or reader.done:
            return
        if exc is not None:  # a reset ends nothing cleanly, not even what ends with the connection
            self.fail(Broken("the connection was reset"))
            return
        try:
            reader.feed_eof()
        except BadResponse as error:
            self.fail(Broken(str(error)))
        self._wake()

    # Between the two

    def _push(self, body: bytes) -> None:
        if self._receiver is None:
            self._early.append(body)
            self._early_bytes += len(body)
            if self._early_bytes > EARLY_BYTES and not self._must_wait:
                self._pause()
            return
        try:
            if not self._receiver.receive(body) and not self._must_wait:
                self._pause()
        except GatewayError as error:
            self.fail(error)
            self._abort()
        except Exception:
            log.exception("what came from a provider could not be handled")
            self.fail(InternalError())
            self._abort()

    def _pause(self) -> None:
        self._must_wait = True
        if self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def _may_serve_again(self) -> bool:
        """Whether the response was read whole, nothing came behind it, and the request was sent."""
        reader, transport = self._reader, self._transport
        if reader is None or reader.head is None or transport is None or transport.is_closing():
            return False
        return (
            reader.done
            and not reader.leftover
            and reader.head.is_persistent
            and reader.head.status not in _LAST_WORDS
            and self._error is None
            and not self._must_wait  # paused, and nobody would resume it
            and transport.get_write_buffer_size() == 0
        )

    async def _wait(self) -> None:
        """Return when there is news; an error is for who waits on: what came before it counts."""
        if self._error is not None:
            raise self._error
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        self._transport = await loop.start_tls(self._transport, self, context, server_hostname=host)


class Pool:
    """The connections to one origin. No limit: what may be in flight is decided elsewhere."""

    def __init__(self, url: URL, connect_seconds: float) -> None:
        assert url.host is not None
        self._host = url.host
        self._port = url.port or 0
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        self._connect_seconds = connect_seconds
        self._idle: dict[Connection, float] = {}
        self._expiry: asyncio.TimerHandle | None = None

    async def get(self, *, fresh: bool = False) -> Connection:
        """A connection kept, the latest first, else (or if `fresh`) a new one.

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
        self._idle.pop(connection, None)

    def close(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        for connection in tuple(self._idle):
            connection.close()

    async def _connect(self) -> Connection:
        loop = asyncio.get_running_loop()
        options: dict[str, Any] = {}
        if isinstance(loop, asyncio.BaseEventLoop):  # uvloop has no such option
            options["happy_eyeballs_delay"] = HAPPY_EYEBALLS_SECONDS
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._connect_seconds):
                _, connection = await loop.create_connection(
                    lambda: Connection(self), self._host, self._port, **options
                )
                if self._tls is not None:
                    await connection.start_tls(self._tls, self._host)
        except OSError as error:  # a TimeoutError is one too
            if connection is None:
                raise Unreachable(type(error).__name__) from error
            connection.close()
            raise InsecureConnection(type(error).__name__) from error
        return connection

    def _expire(self) -> None:
        self._expiry = None
        now = asyncio.get_running_loop().time()
        for connection, until in tuple(self._idle.items()):
            if until <= now:
                del self._idle[connection]
                connection.close()
        if self._idle:
            oldest = next(iter(self._idle.values()))
            self._expiry = asyncio.get_running_loop().call_at(oldest, self._expire)
