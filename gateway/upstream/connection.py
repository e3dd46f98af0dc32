"""One connection to a provider and the response under way on it.

Bytes are pushed: `data_received` reads the response and hands its body to the receiver in the same
call. What the receiver or this turn of the loop cannot take waits; above `PENDING_BYTES`, reading pauses.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final, cast

from gateway.base.errors import GatewayError, InternalError
from gateway.base.turns import Turns, find_turns
from gateway.upstream.http1 import BadResponse, Head, ResponseReader
from gateway.upstream.receivers import Receiver, UnpackedBody, Wants, read_encoding

log = logging.getLogger("gateway.connection")

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


class Broken(Exception):
    """The connection ended before the response was whole, or sent bytes that are not HTTP."""


class Connection(asyncio.Protocol):
    """A transport with at most one request in flight.

    The user calls `start`, `read_head`, `read_body` and `close`, in this order.
    """

    def __init__(
        self, keep: Callable[[Connection], None], forget: Callable[[Connection], None]
    ) -> None:
        """`keep` is called when the connection may serve again, `forget` when it is lost."""
        self._keep = keep
        self._forget = forget
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        self._receiver: Receiver | None = None
        self._open_body: Callable[[Head], Receiver] | None = None
        # Each `get_running_loop` of Python 3.11 is a call of the system.
        self._loop = asyncio.get_running_loop()
        self._turns: Turns = find_turns()
        self._pending = b""
        """Bytes read that wait for the receiver or for their turn; above `PENDING_BYTES`, reading pauses."""
        self._most_lines = MOST_LINES
        self._is_deferred = False
        """Pending bytes have a turn of the loop to come."""
        self._transport_reads = True
        self._waiter: asyncio.Future[None] | None = None
        """The wait of `send`, `read_head` or `read_body`."""
        self._error: Exception | None = None
        """Why the response failed; raised when all that came before it is handled."""
        self._stopped = False
        """The receiver has all it needs: the rest of the body is dropped."""
        self._linger: asyncio.TimerHandle | None = None
        """Ends the reading of that rest, for which nobody waits any more."""
        self.paused = False
        """The receiver asked to wait, so what is read waits."""
        self.body_reads = 0
        """The number of reads with body bytes. If it is unchanged, there was silence."""
        self.served = 0
        """Responses that were read to their end."""
        self.answered = False
        """A byte of the current response came."""
        self.is_sent = True
        """The whole current request was handed to the transport."""
        self._is_full = False
        """The transport's send buffer is full."""

    @property
    def usable(self) -> bool:
        """Whether a request may be sent. The next one would take bytes that wait for its answer."""
        is_open = self._transport is not None and not self._transport.is_closing()
        return is_open and not self._pending

    @property
    def awaits_provider(self) -> bool:
        """Nothing waits for the receiver or for its turn: a silence is the provider's."""
        return not self.paused and not self._pending

    def start(
        self, request: bytes, open_body: Callable[[Head], Receiver], most_lines: int = MOST_LINES
    ) -> None:
        """Send a whole request, or what comes before `send`.

        The head of the answer opens the receiver, which takes at most `most_lines` at a time.
        """
        assert self._transport is not None
        self._reader = ResponseReader()
        self._open_body, self._most_lines = open_body, most_lines
        self.answered = False
        self._transport.write(request)

    async def send(self, pieces: AsyncIterator[bytes]) -> None:
        """Send the rest of a request as fast as the provider takes it; stop early if an answer comes.

        Raises Broken, or the error given to `fail`.
        """
        self.is_sent = False
        async for piece in pieces:
            reader, transport = self._reader, self._transport
            if self._error is not None:
                raise self._error
            if reader is None or reader.head is not None or transport is None:
                return
            transport.write(piece)
            while self._is_full and reader.head is None:
                await self._next_wake()
        self.is_sent = True

    async def read_head(self) -> Head:
        """Return status and headers. Raises Broken, or the error given to `fail`."""
        reader = self._reader
        assert reader is not None
        while reader.head is None:
            await self._next_wake()
        return reader.head

    async def read_body(self) -> None:
        """Return when the receiver has the whole body, unpacked, or wants nothing more.

        Raises Broken, the error given to `fail`, or what the receiver raised.
        """
        reader, receiver = self._reader, self._receiver
        assert reader is not None
        # Also after the body's end while the receiver asks to wait: its buffer has to be sent.
        while not self._stopped and (self.paused or not reader.done):
            if self.paused and receiver is not None:
                await receiver.unblock()
                self.paused = False
                if type(receiver) is UnpackedBody and self._error is None:
                    self._read(b"")
                self._read_pending()
            else:
                await self._next_wake()
        if self._stopped:
            return
        # Bytes that came before the error were delivered, so a reply that is whole stays whole.
        if self._error is not None:
            raise self._error
        assert receiver is not None
        try:
            receiver.end()
        except BadResponse as error:
            raise Broken(str(error)) from error

    def fail(self, error: Exception) -> None:
        """Make whoever waits for the response raise `error`; the first error counts."""
        if self._error is None:
            self._error = error
        self._wake()

    def close(self) -> None:
        """Return the connection to the pool (at once, or when its body is over), or cut it."""
        if self._stopped and self._reader is not None and not self._reader.done:
            self._read_rest()
        else:
            self._finish()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have all methods of asyncio.Transport but not its base class.
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        self._wake()

    def data_received(self, data: bytes) -> None:
        # A small read must not overtake bytes that wait, or a receiver that asked to wait.
        if len(data) <= AT_ONCE_BYTES and not self.paused and not self._pending:
            self._read(data)
            return
        self._pending += data
        self._read_pending()

    def _read_pending(self) -> None:
        """Handle pending bytes in pieces while this turn of the loop has time, the rest later."""
        while self._pending and not self.paused and not self._is_deferred:
            if not self._turns.has_time():
                # `_keep` is the pool's method, so all connections to a provider are one owner.
                self._turns.defer(self._keep, self._take_turn)
                self._is_deferred = True
                break
            piece = cut_piece(self._pending, self._most_lines)
            self._pending = self._pending[len(piece) :]
            self._read(piece)
        self._choose_reading()

    def _take_turn(self) -> None:
        self._is_deferred = False
        self._read_pending()

    def _choose_reading(self) -> None:
        """Let the transport read unless more than `PENDING_BYTES` are pending.

        Most waits, such as that for a stream's head or for a turn, end before another read, so they take no
        calls of the system. What waits when the connection ends is handled at once, so it must be little.
        """
        reads = len(self._pending) <= PENDING_BYTES
        if self._transport is not None and reads != self._transport_reads:
            self._transport_reads = reads
            if reads:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def _read(self, data: bytes) -> None:
        """Take bytes of the response; without any, go on with what the receiver has not unpacked yet."""
        self.answered = True
        reader, mistake = self._reader, None
        if reader is None or self._error is not None:
            self._abort()  # bytes without a request
            return
        had_head = reader.head is not None
        try:
            body = reader.feed(data)
        except BadResponse as error:
            # Body bytes before the fault count as if they had come in a read of their own.
            body, mistake = error.body, Broken(str(error))  # a new one: it holds no frame
        try:
            if not had_head and reader.head is not None:
                self._open(reader.head)
            receiver = self._receiver
            # Reads without body bytes, such as chunk sizes alone, must not renew the idle deadline.
            self.body_reads += bool(body)
            if receiver is not None and (body or not data):
                wants = receiver.receive(body)
                if wants is not Wants.MORE:
                    self._obey(wants)
            if mistake is not None:
                self._cut(mistake)
        except Exception as error:  # noqa: BLE001 - a receiver's
            self._cut(error)
        # Only the head and the end wake the waiter: body bytes need no task switch.
        if reader.done or not had_head:
            self._wake()
            # The user may have called `close` before: the rest was read to save the connection.
            if self._linger is not None and reader.done:
                self._finish()

    def _open(self, head: Head) -> None:
        """Open what takes the body of the answer, unpacked."""
        assert self._open_body is not None
        receiver, self._open_body = self._open_body(head), None
        packed = head.headers.get(b"content-encoding")
        if packed is not None and (encoding := read_encoding(packed)):
            receiver = UnpackedBody(receiver, encoding, self._turns.has_time)
        self._receiver = receiver

    def _obey(self, wants: Wants) -> None:
        """Hand on no more for now, or, if the receiver has all it needs, drop the rest of the body."""
        if wants is Wants.NOTHING:
            # The rest is read for a moment to save the connection.
            self._stopped = True
            self._receiver = None
        else:
            self.paused = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._pending:  # nothing more can be waited for: the end may come before their turn
            pending, self._pending = self._pending, b""
            self._read(pending)
        self._transport = None
        self._forget(self)
        self._cancel_linger()
        reader = self._reader
        if reader is None or reader.done:
            return
        if exc is not None:  # a reset is never a clean end, not even of a close-delimited body
            self.fail(Broken("the connection was reset"))
            return
        try:
            reader.feed_eof()
        except BadResponse as error:
            self.fail(Broken(str(error)))
        self._wake()

    def _cut(self, error: Exception) -> None:
        """End the connection because of an error in its bytes or in handling them."""
        if isinstance(error, BadResponse):
            error = Broken(str(error))
        # A bug of ours is logged here with its traceback; the caller is told only "internal error".
        if not isinstance(error, Broken | GatewayError):
            log.error("a provider's bytes could not be handled", exc_info=error)
            error = InternalError()
        self.fail(error)
        self._abort()

    def _read_rest(self) -> None:
        """Read the rest of the body for a moment: usually one last empty chunk."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._error is not None:
            self._finish()
            return
        if self.paused:
            self.paused = False
            self._read_pending()
        self._linger = self._loop.call_later(LINGER_SECONDS, self._finish)

    def _finish(self) -> None:
        """Return to the pool if the connection may serve again, else close it."""
        if self._linger is not None:
            self._cancel_linger()
        # The response was read whole, nothing came behind it, and the request was sent. Decided first: the next
        # lines clear the state it depends on.
        reader, transport = self._reader, self._transport
        may_serve_again = (
            reader is not None
            and reader.head is not None
            and transport is not None
            and not transport.is_closing()
            and reader.done
            and not reader.leftover
            and reader.head.is_persistent
            and reader.head.status not in NOT_REUSABLE
            and self._error is None
            and not self._pending
            # An early answer leaves the request's rest unsent, which would delay the next request.
            and self.is_sent
            and transport.get_write_buffer_size() == 0
        )
        # The next request must not see the state of this response.
        self._error = None
        self._reader = self._receiver = self._open_body = self._waiter = None
        self._pending = b""
        self.paused = self._stopped = False
        self.is_sent = True
        if may_serve_again:
            self.served += 1
            self._keep(self)
        else:
            self._abort()

    def _cancel_linger(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def _next_wake(self) -> asyncio.Future[None]:
        """Return the future of the next wake-up; no coroutine, as each costs a call at every wake-up.

        Errors are raised on the next call, so bytes before an error are handled first.
        """
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        return self._waiter

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _abort(self) -> None:
        self._pending = b""
        if self._transport is not None:
            # `close` would first send what is still buffered, which nobody wants any more.
            self._transport.abort()
