"""One response under way: read from bytes, handed to its receiver, awaited by its user. No I/O."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.base.errors import GatewayError, InternalError
from gateway.base.turns import find_turns
from gateway.upstream.http1 import BadResponse, Head, ResponseReader
from gateway.upstream.receivers import Receiver, UnpackedBody, Wants, read_encoding

log = logging.getLogger("gateway.connection")


class Broken(Exception):
    """The connection ended before the response was whole, or sent bytes that are not HTTP."""


@dataclass(slots=True, eq=False, repr=False)
class Response:
    """The response to one request. Its user awaits `read_head`, then `read_body`.

    Bytes are pushed: `read` hands the body to the receiver in the same call.
    """

    open_body: Callable[[Head], Receiver]
    """Called with the head; returns what takes the body."""
    most_lines: int
    """The most lines that the receiver gets at a time."""
    resume: Callable[[], None]
    """Has the connection go on with what is pending."""
    loop: asyncio.AbstractEventLoop
    reader: ResponseReader = field(default_factory=ResponseReader)
    wants: Wants = Wants.MORE
    """The receiver's last wish."""
    pending: bytes = b""
    """Bytes that wait for the receiver, or for their turn of the event loop."""
    error: Exception | None = None
    """Why the response failed; raised when all that came before it is handled."""
    is_answered: bool = False
    """A byte came."""
    is_sent: bool = True
    """The whole request was handed to the transport."""
    body_reads: int = 0
    """The number of reads with body bytes. If it is unchanged, there was silence."""
    _receiver: Receiver | None = None
    _waiter: asyncio.Future[None] | None = None

    @property
    def awaits_provider(self) -> bool:
        """Nothing waits for the receiver or for its turn: a silence is the provider's."""
        return self.wants is not Wants.ROOM and not self.pending

    async def read_head(self) -> Head:
        """Return status and headers. Raises Broken, or the error given to `fail`."""
        reader = self.reader
        while reader.head is None:
            await self.next_wake()
        return reader.head

    async def read_body(self) -> None:
        """Return when the receiver has the whole body, unpacked, or wants nothing more.

        Raises Broken, the error given to `fail`, or what the receiver raised.
        """
        # Also after the body's end while the receiver asks to wait: its buffer has to be sent.
        while self.wants is Wants.ROOM or (self.wants is Wants.MORE and not self.reader.done):
            if self.wants is Wants.ROOM:
                receiver = self._receiver
                assert receiver is not None
                await receiver.unblock()
                # The end of the connection may have brought the rest meanwhile.
                if self.wants is Wants.ROOM:
                    self.wants = Wants.MORE
                if type(receiver) is UnpackedBody and self.error is None:
                    self.read(b"")
                self.resume()
            else:
                await self.next_wake()
        if self.wants is Wants.NOTHING:
            return
        # Bytes that came before the error were delivered, so a reply that is whole stays whole.
        if self.error is not None:
            raise self.error
        assert self._receiver is not None
        try:
            self._receiver.end()
        except BadResponse as error:
            raise Broken(str(error)) from error

    def fail(self, error: Exception) -> None:
        """Make whoever waits for the response raise `error`; the first error counts."""
        if self.error is None:
            self.error, self.pending = error, b""
        self.wake()

    def read(self, data: bytes) -> None:
        """Take bytes; without any, go on with what the receiver has not unpacked yet."""
        self.is_answered = True
        reader, mistake = self.reader, None
        had_head = reader.head is not None
        try:
            body = reader.feed(data)
        except BadResponse as error:
            # Body bytes before the fault count as if they had come in a read of their own.
            body, mistake = error.body, Broken(str(error))  # a new one: it holds no frame
        try:
            if not had_head and reader.head is not None:
                self._open(reader.head)
            # Reads without body bytes, such as chunk sizes alone, must not renew the idle deadline.
            self.body_reads += bool(body)
            receiver = self._receiver
            if receiver is not None and (body or not data) and self.wants is not Wants.NOTHING:
                wants = receiver.receive(body)
                if wants is not Wants.MORE:
                    self.wants = wants
                    self.wake()
            if mistake is not None:
                self.fail(mistake)
        except Exception as error:  # noqa: BLE001 - a receiver's
            self._note_failure(error)
        # Only the head and the end wake the waiter: body bytes need no task switch.
        if reader.done or not had_head:
            self.wake()

    def end(self, *, is_reset: bool) -> None:
        """Note that the connection ended."""
        if self.reader.done:
            return
        if is_reset:  # never a clean end, not even of a close-delimited body
            self.fail(Broken("the connection was reset"))
            return
        try:
            self.reader.feed_eof()
        except BadResponse as error:
            self.fail(Broken(str(error)))
        self.wake()

    def next_wake(self) -> asyncio.Future[None]:
        """Return the future of the next wake-up; no coroutine, as each costs a call at every wake-up.

        Errors are raised on the next call, so bytes before an error are handled first.
        """
        if self.error is not None:
            raise self.error
        self._waiter = self.loop.create_future()
        return self._waiter

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _open(self, head: Head) -> None:
        """Open what takes the body of the answer, unpacked."""
        receiver = self.open_body(head)
        packed = head.headers.get(b"content-encoding")
        if packed is not None and (encoding := read_encoding(packed)):
            receiver = UnpackedBody(receiver, encoding, find_turns().has_time)
        self._receiver = receiver

    def _note_failure(self, error: Exception) -> None:
        """Fail because of what the receiver raised."""
        if isinstance(error, BadResponse):
            error = Broken(str(error))
        # A bug of ours is logged here with its traceback; the caller is told only "internal error".
        if not isinstance(error, Broken | GatewayError):
            log.error("a provider's bytes could not be handled", exc_info=error)
            error = InternalError()
        self.fail(error)
