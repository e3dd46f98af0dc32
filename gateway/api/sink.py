"""The caller's side of a reply.

A stream is framed by hand on the caller's transport: aiohttp writes the head and, at the clean end,
the last chunk; in between, events go to the transport without a coroutine per event. A stream that
must not end cleanly is cut before the last chunk, which every SDK reports as an error. A JSON reply is
written whole.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import starmap
from typing import Final

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http_writer import StreamWriter
from aiohttp.web_request import BaseRequest

from gateway.api.bodies import SMALL_BYTES, count_bytes, count_reply
from gateway.api.front import Call, KeyedCall, make_headers
from gateway.base.deadlines import Clock
from gateway.base.errors import GatewayError, drop_frames
from gateway.base.turns import spawn

STREAM_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    # nginx would otherwise hold events back until its buffer is full.
    "X-Accel-Buffering": "no",
}


async def drain(request: web.BaseRequest) -> None:
    """Return when the caller has taken its bytes. Raises ConnectionError when it is gone."""
    try:
        await request.writer.drain()
    except ConnectionError as error:
        drop_frames(error)  # aiohttp's frame refers to the future with the error: a cycle
        raise


class Sink:
    """The destination of a reply, ended or aborted once. The base class sends no head and no events."""

    __slots__ = ()

    opened = False
    """The head was sent: from then on an error is an event."""

    @property
    def lost(self) -> bool:
        """The caller is gone."""
        return False

    async def begin(self) -> None:
        """Send the head and everything that waits for it.

        Raises LedgerUnavailable, or ConnectionError when the caller is gone.
        """

    def set_type(self, content_type: str) -> None:
        """Set the content type of a stream that has no events, such as audio, before its head is sent."""

    def send(self, data: bytes) -> bool:  # noqa: ARG002 - a stream's
        """Send events, or keep them until `begin`; drop them after an abort.

        False asks the sender to wait for `unblock`.
        """
        return True

    async def unblock(self) -> None:
        """Return when the caller has taken its bytes. Raises ConnectionError when it is gone."""

    @property
    def unread_bytes(self) -> int:
        """The bytes that the caller has not read, if there are so many that `unblock` waits; else 0."""
        return 0

    def tick(self, *, mid_event: bool) -> None:
        """Send a comment after a silence; give up a caller that reads nothing."""

    def end(self, data: bytes) -> None:
        """Send the last bytes and end the reply cleanly, without waiting for the caller."""

    def abort(self) -> None:
        """End the connection in the middle: a cut reply never ends cleanly."""

    def close(self) -> None:
        """Send nothing from now on, not even a head: another reply answers the caller."""


class JsonSink(Sink):
    """A JSON reply, kept whole until its end. Whether the caller is still there makes no difference."""

    body = b""

    def end(self, data: bytes) -> None:
        self.body = data


@dataclass(slots=True, eq=False, repr=False)
class StreamSink(Sink):
    """An event stream on the transport of a request. Nothing is sent before `begin` or a comment."""

    request: web.Request | None
    """None once it is closed, as is the response: a failed write's error refers to the frames it passed, and
    aiohttp keeps the error with the request."""
    response: web.StreamResponse | None
    call: Call
    wait_admitted: Callable[[], Awaitable[None]]
    """Called before the head is sent."""
    _headers: Mapping[str, str] = field(init=False)
    _clock: Clock = field(init=False)
    _comment_seconds: float = math.inf
    """The silence after which a comment is sent, if the caller's dialect has one."""
    _stall_seconds: float = field(init=False)
    """The time after which a caller that reads no bytes is given up."""
    _pending: list[bytes] = field(default_factory=list)
    _protocol: BaseProtocol = field(init=False)
    """Has the transport until it is lost, and knows whether that asks to wait: above asyncio's 64 KiB."""
    _chunked: bool = False
    _comment_due: float = 0.0
    """In the loop's time: a caller that waits has a clock of its own."""
    _silent: bool = True
    """No event went out since the last tick."""
    _stalled_since: float | None = None
    opened: bool = False
    _flowing: bool = False
    _ended: bool = False

    def __post_init__(self) -> None:
        gateway = self.call.gateway
        self._headers, self._clock = make_headers(self.call), gateway.ticker.clock
        # Read once: a reload changes nothing of a request in flight.
        self._stall_seconds = gateway.config.server.stall_seconds
        if self.call.dialect.keep_alive:
            self._comment_seconds = gateway.config.server.comment_seconds
        # HTTP/1.0 has no chunks: a stream ends with its connection.
        assert self.request is not None
        self._chunked = self.request.version >= HttpVersion11
        self._protocol = self.request.protocol
        self._comment_due = gateway.ticker.loop.time() + self._comment_seconds

    @property
    def lost(self) -> bool:
        transport = self._protocol.transport
        return transport is None or transport.is_closing()

    async def begin(self) -> None:
        await self._open(self._take_pending)
        # Set only now: events that came while the head was being sent must keep their order.
        self._flowing = True
        if self._pending:
            self._write(self._take_pending())

    def set_type(self, content_type: str) -> None:
        self._headers = {**self._headers, "Content-Type": content_type}

    def send(self, data: bytes) -> bool:
        if not self._flowing:
            if not self._ended:
                self._pending.append(data)
            # False makes the delivery call `begin` before more events pile up here.
            return self._ended
        self._silent = False
        return self._write(data)

    @property
    def unread_bytes(self) -> int:
        transport, is_full = self._protocol.transport, self._protocol.writing_paused
        return transport.get_write_buffer_size() if is_full and transport is not None else 0

    async def unblock(self) -> None:
        if self.request is None:
            return
        self._stalled_since = self._clock.next_seconds
        try:
            await drain(self.request)
        finally:
            self._stalled_since = None

    def tick(self, *, mid_event: bool) -> None:
        since, now = self._stalled_since, self._clock.now
        if not self._silent:  # the hot path reads no clock
            self._silent, self._comment_due = True, now + self._comment_seconds
        if since is not None:
            if self._clock.lasted(since) >= self._stall_seconds:
                self.abort()
        # A stalled caller gets no comment: it reads nothing anyway.
        elif now >= self._comment_due and not self._ended and not mid_event:
            self._comment_due = now + self._comment_seconds
            if self.opened:
                self._write(self.call.dialect.keep_alive)
            else:
                # In a separate task: the head waits for the commit, and the ticker must not.
                _ = spawn(self._comment_early(), name="comment")

    def end(self, data: bytes) -> None:
        if self.lost or self.request is None:
            return
        writer = self.request.writer
        assert isinstance(writer, StreamWriter)
        self._write(data, b"0\r\n\r\n" if self._chunked else b"")
        self._ended = True
        if not self.lost:  # the write itself may find the caller gone
            writer.chunked = False  # the last chunk has left with the data, in one write
            writer.set_eof()

    def abort(self) -> None:
        # The last chunk is missing, so no client mistakes the part for the whole.
        self._ended = True
        if self._protocol.transport is not None:
            self._protocol.transport.abort()

    def close(self) -> None:
        self._ended = True
        self.request = self.response = None

    def _take_pending(self) -> bytes:
        pending = b"".join(self._pending)
        if pending:
            self._pending, self._silent = [], False
        return pending

    async def _open(self, take_first: Callable[[], bytes]) -> None:
        """Send the 200, the headers and the first bytes, once the request's row is committed."""
        if self.opened:
            return
        await self.wait_admitted()
        if self.opened:  # meanwhile, by a comment
            return
        # During the wait the caller may have left, or an error may have answered it.
        request, response = self.request, self.response
        if self.lost or self._ended or request is None or response is None:
            raise ConnectionResetError
        self.opened = True
        response.headers.update(STREAM_HEADERS)
        response.headers.update(self._headers)
        if self._chunked:
            response.enable_chunked_encoding()
        if not self._chunked or self.call.gateway.draining:
            response.force_close()
        writer = await response.prepare(request)
        if writer is not None:
            assert isinstance(writer, StreamWriter)
            await writer.write(take_first(), drain=False)  # `unblock` waits, within its time limit

    async def _comment_early(self) -> None:
        """Send the head and a comment while the provider is still silent."""
        # The task that serves the request gets the same error and handles it.
        with suppress(GatewayError, ConnectionError):
            await self._open(lambda: self.call.dialect.keep_alive)

    def _write(self, data: bytes, behind: bytes = b"") -> bool:
        """Write events and then `behind`; return False when the transport's buffer is full."""
        transport = self._protocol.transport
        if transport is None or self._ended:
            return True  # the caller is gone; the next tick notices it
        transport.write(b"%x\r\n%b\r\n%b" % (len(data), data, behind) if self._chunked else data)
        return not self._protocol.writing_paused


class StreamReply(web.StreamResponse):
    """A 200 with events. Its head waits for the first of them, so that both leave in one write."""

    _send_headers_immediately = False


PIECE_BYTES: Final = 1 << 18
"""Bytes of a large reply written in one turn of the loop: asyncio copies what the kernel does not take at
once, which would otherwise be the whole reply."""
SERVER: Final = "gateway"
"""The `Server` header: no version, which would tell attackers what to try."""


class JsonReply(web.StreamResponse):
    """A 200 with a JSON body.

    aiohttp's own response takes three times the calls, and forgets a reply as soon as it is in the
    transport's buffer, which has no bound.
    """

    def __init__(self, call: KeyedCall, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(headers=headers)
        self._call = call
        self._json = body

    async def prepare(self, request: BaseRequest) -> None:
        """Send the whole reply; wait if the caller reads slowly. Raises ConnectionError."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        version, connection = "1.1", ""
        # HTTP/1.0 closes unless told to keep, HTTP/1.1 keeps unless told to close (RFC 9112 §9.3).
        if request.version == HttpVersion10:
            version = "1.0"
            connection = "Connection: keep-alive\r\n" if self._keep_alive else ""
        elif not self._keep_alive:
            connection = "Connection: close\r\n"
        # aiohttp keeps a reply until the connection's next request.
        body, self._json = self._json, b""
        own = "".join(starmap("{}: {}\r\n".format, self._headers.items()))
        head = (
            f"HTTP/{version} 200 OK\r\n{own}Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nDate: {rfc822_formatted_time()}\r\n"
            f"Server: {SERVER}\r\n{connection}\r\n"
        ).encode("ascii")
        first = body if len(body) <= SMALL_BYTES else b""
        transport.write(head + first)
        # More than one small reply is unread if the caller goes on sending requests without reading.
        if not first or transport.get_write_buffer_size() > SMALL_BYTES:
            await self._send_rest(request, transport, body, len(first))

    async def _send_rest(
        self, request: BaseRequest, transport: asyncio.Transport, body: bytes, sent: int
    ) -> None:
        """Send what is left of a large reply, as the caller reads; it counts in memory meanwhile."""
        call = self._call
        count_reply(call, max(len(body), transport.get_write_buffer_size()))
        try:
            await drain(request)
            for start in range(sent, len(body), PIECE_BYTES):
                if transport.is_closing():  # uvloop fails on a write to a closed transport
                    raise ConnectionResetError
                transport.write(body[start : start + PIECE_BYTES])
                await drain(request)
        finally:
            count_bytes(call, -call.buffered_bytes)

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: the head states the body's length."""
