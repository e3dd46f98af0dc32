"""The connections to one provider, busy and idle: what is sent, and what is read in pieces and turns.

What the receiver or this turn of the loop cannot take waits; above `PENDING_BYTES`, reading pauses.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Final, cast

from gateway.base.turns import Turns, find_turns
from gateway.upstream.dial import Dialer
from gateway.upstream.http1 import Head
from gateway.upstream.receivers import Receiver, Wants
from gateway.upstream.response import Broken, Response

NOT_REUSABLE: Final = frozenset({101, 204})
"""Statuses after which some servers send bytes that belong to no response."""
AT_ONCE_BYTES: Final = 2 << 10
"""Bytes of a read handled at once: some events. More wait while other connections have their turns."""
PIECE_BYTES: Final = 128 << 10
"""Bytes handled at a time: most of what comes in one read is one piece, and leaves in one write. A burst of
67 KB costs a fifth less than in pieces of 32 KiB."""
MOST_LINES: Final = 1365
"""Lines of a piece: each event takes time, however short it is. At worst, so many take 10 ms: events that no
template passes."""
MOST_TRANSLATED_LINES: Final = 341
"""The same where events are translated: at worst they take 4 ms."""
PENDING_BYTES: Final = 8 << 10
"""Bytes that may wait while the transport is read on: to stop and to resume it costs more than so few."""
LINGER_SECONDS: Final = 1.0
"""How long the rest of a body is read and dropped, so that the connection can return to the pool."""
IDLE_SECONDS: Final = 15.0
"""Time an idle connection is kept, less than by providers: one they close first costs a retry."""


def cut_piece(data: bytes, most_lines: int) -> bytes:
    """Cut the first piece: at most `PIECE_BYTES`, and so many lines."""
    piece = data[:PIECE_BYTES]
    # `count` looks at each byte, `replace` only at those that it finds: that takes a third of the time.
    while any(
        len(piece) - len(piece.replace(end, b"", most_lines + 1)) > most_lines
        for end in (b"\n", b"\r")
    ):
        piece = piece[: len(piece) // 2]
    return piece


class Connection(asyncio.Protocol):
    """A transport with at most one request in flight.

    The user calls `start`, reads the response that it returns, then calls `close`.
    """

    def __init__(self, pool: Pool) -> None:
        """`pool` keeps the connection when it may serve again."""
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._response: Response | None = None
        """The response under way, from `start` to `close`."""
        # Each `get_running_loop` of Python 3.11 is a call of the system.
        self._loop = asyncio.get_running_loop()
        self._turns: Turns = find_turns()
        self._is_deferred = False
        """Pending bytes have a turn of the loop to come."""
        self._transport_reads = True
        self._is_full = False
        """The transport's send buffer is full."""
        self.served = 0
        """Responses that were read to their end."""

    @property
    def usable(self) -> bool:
        """Whether a request may be sent."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and self._response is None

    def start(
        self, request: bytes, open_body: Callable[[Head], Receiver], most_lines: int = MOST_LINES
    ) -> Response:
        """Send a whole request, or what comes before `send`.

        The head of the answer opens the receiver, which takes at most `most_lines` at a time.
        """
        assert self._transport is not None
        self._response = Response(open_body, most_lines, self._read_pending, self._loop)
        self._transport.write(request)
        return self._response

    async def send(self, pieces: AsyncIterator[bytes]) -> None:
        """Send the rest of a request as fast as the provider takes it; stop early if an answer comes.

        Raises Broken, or the error given to the response's `fail`.
        """
        response = self._response
        assert response is not None
        response.is_sent = False
        async for piece in pieces:
            if response.error is not None:
                raise response.error
            if response.reader.head is not None or self._transport is None:
                return
            self._transport.write(piece)
            while self._is_full and response.reader.head is None:
                await response.next_wake()
        response.is_sent = True

    def close(self) -> None:
        """Return the connection to the pool (at once, or when its body is over), or cut it."""
        response, transport = self._response, self._transport
        if (
            response is None
            or transport is None
            or transport.is_closing()
            or response.error is not None
        ):
            if response is not None:
                response.error = None  # its frames hold the response: a cycle
            self._response = None
            self._abort()
            return
        reader = response.reader
        if response.wants is Wants.NOTHING and not reader.done:
            self._read_rest(response)
            return
        self._response = None
        # The response was read whole, nothing came behind it, and the request was sent.
        if (
            reader.head is not None
            and reader.done
            and not reader.leftover
            and reader.head.is_persistent
            and reader.head.status not in NOT_REUSABLE
            and not response.pending
            # An early answer leaves the request's rest unsent, which would delay the next request.
            and response.is_sent
            and transport.get_write_buffer_size() == 0
        ):
            self.served += 1
            self._pool.put(self)
        else:
            self._abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all methods of asyncio.Transport but not its base class.
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._response is not None:
            self._response.wake()

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None or response.error is not None:
            self._abort()  # nobody asked for these bytes, or wants them any more
        # A small read must not overtake bytes that wait, or a receiver that asked to wait.
        elif (
            len(data) <= AT_ONCE_BYTES and not response.pending and response.wants is not Wants.ROOM
        ):
            response.read(data)
        else:
            response.pending += data
            self._read_pending()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._pool.discard(self)
        if (response := self._response) is None:
            return
        if response.pending:  # nothing more can be waited for: the end may come before their turn
            pending, response.pending = response.pending, b""
            response.read(pending)
        response.end(is_reset=exc is not None)

    def _read_pending(self) -> None:
        """Handle pending bytes in pieces while this turn of the loop has time, the rest later.

        The transport is read on unless more than `PENDING_BYTES` are pending. Most waits, such as that for a
        stream's head or for a turn, end before another read, so they take no calls of the system. What waits
        when the connection ends is handled at once, so it must be little.
        """
        response, transport = self._response, self._transport
        if response is None or transport is None:
            return
        while response.pending and response.wants is not Wants.ROOM and not self._is_deferred:
            if not self._turns.has_time():
                # All connections to a provider are one owner.
                self._turns.defer(self._pool, self._take_turn)
                self._is_deferred = True
                break
            piece = cut_piece(response.pending, response.most_lines)
            response.pending = response.pending[len(piece) :]
            response.read(piece)
        reads = len(response.pending) <= PENDING_BYTES
        if reads != self._transport_reads:
            self._transport_reads = reads
            if reads:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _read_rest(self, response: Response) -> None:
        """Read the rest for a moment, usually one last empty chunk; whatever wakes the response ends that."""
        late = self._loop.call_later(LINGER_SECONDS, response.fail, Broken("its end is late"))

        def close(_: object) -> None:
            late.cancel()  # it would keep the response, and its bodies, in memory
            self.close()

        response.next_wake().add_done_callback(close)

    def _take_turn(self) -> None:
        self._is_deferred = False
        self._read_pending()

    def _abort(self) -> None:
        if self._transport is not None:
            # `close` would first send what is still buffered, which nobody wants any more.
            self._transport.abort()


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
        return await self._dialer.dial(lambda: Connection(self))

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
