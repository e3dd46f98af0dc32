"""The caller's connection: what comes on it is read in small pieces, and only as far as it is wanted.

aiohttp parses all that a read brought at once: 256 KiB may be 43,000 chunks of a byte, and so take
60 ms. Here a read that may take long is parsed piece by piece, in turns that connections share
fairly, and what comes behind a refusal is not parsed.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Coroutine, Hashable
from typing import TYPE_CHECKING, Final

from aiohttp import StreamReader, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest

from gateway.api.call import Call, make_headers
from gateway.api.error_replies import explain_path, render_error
from gateway.dialects.base import Caller
from gateway.dialects.exchanges import CALLERS
from gateway.errors import BadRequest, GatewayError, InternalError, NotFound, drop_frames
from gateway.request_ids import make_request_id
from gateway.tasks import Turns, find_turns
from gateway.times import unix_ms

if TYPE_CHECKING:  # the state of all requests counts bodies, which are read from connections
    from gateway.api.state import Gateway

READ_BYTES: Final = 64 << 10
"""Bytes that are read at a time, and parsed in a body with a length, where bytes are cheap."""
STRANGER_BYTES: Final = 16 << 10
"""Bytes that are read at a time before a key is known: a thousand strangers may send at once."""
CHEAP_LINES: Final = 64
"""Lines of a read that is parsed at once: a head has twenty, a chunk two, and each takes 0.6 µs."""
PIECE_BYTES: Final = 1 << 10
"""Bytes that are parsed at a time of chunks, of which each may have one: 0.2 ms."""
HEAD_BYTES: Final = 16 << 10
"""Bytes that are parsed at a time where a head should end."""
UNWANTED_SECONDS: Final = 1.0
"""How long chunks behind a head wait for a handler to want them; it refuses the request or it does."""
TINY_CHUNKS: Final = 512
"""Chunks of any size that a body may have. Clients send some of 1 to 64 KiB, or a few small ones."""
TINY_BYTES: Final = 32
"""The least mean size of the chunks of a body that has more."""


class PacedConnection(RequestHandler):
    """aiohttp's connection, whose bytes are parsed in turn."""

    __slots__ = ("_body", "_chunked", "_pending", "_turns", "_unread_bytes", "chunks", "owner")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.owner: Hashable = None
        """The account of the last request, whose share of the loop's turns this is; None: a stranger."""
        self.chunks = 0
        """The chunks so far of the body that comes."""
        self._turns: Turns = find_turns()
        self._body: StreamReader | None = None
        """The body of the last request, until it is whole."""
        self._chunked = False
        """It comes in chunks."""
        self._pending = b""
        """Bytes that were read and not yet parsed. While there are any, no more are read."""
        self._unread_bytes: int | None = None
        """How much may still be read of a body that nobody wants; None while it is wanted."""
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not data:  # aiohttp goes on with what its parser holds
            self.parse(data)
            return
        if self._unread_bytes is not None:
            data = self._take_unwanted(data)
        if self._pending:
            self._pending += data
        elif (
            len(data) >= STRANGER_BYTES
            or data.count(b"\n") > CHEAP_LINES
            or not self._turns.may_begin(self.owner)
        ):
            self._pending = data
            self._pause_transport_reading()
            self._turns.wait(self.owner, self._parse_piece)
        else:
            self.parse(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._pending = b""
        self._body = None
        super().connection_lost(exc)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        content = request.content
        if not content.is_eof():
            # The rest of a body that nobody wants is read so far as it costs next to nothing.
            self._unread_bytes = READ_BYTES
            self._pending = self._take_unwanted(self._pending)
        return await super().finish_response(request, resp, start_time)

    def has_tiny_chunks(self) -> bool:
        """Return whether the body comes in more and smaller chunks than any client sends."""
        body = self._body
        return (
            self.chunks > TINY_CHUNKS
            and body is not None
            and body.total_bytes < TINY_BYTES * self.chunks
        )

    def _take_unwanted(self, data: bytes) -> bytes:
        """Return what is still parsed of a body that nobody wants: all or nothing."""
        body, left = self._body, self._unread_bytes
        assert left is not None
        if body is None or body.is_eof():
            self._unread_bytes = None
            return data
        if len(data) <= left and data.count(b"\n") <= CHEAP_LINES:
            self._unread_bytes = left - len(data)
            return data
        self._unread_bytes = 0
        self._pause_transport_reading()
        return b""

    def parse(self, data: bytes) -> None:
        """Let aiohttp parse bytes; count the chunks among them."""
        before = _count_chunks(self._body) if self._chunked else 0
        super().data_received(data)
        if self._chunked:
            self.chunks += max(_count_chunks(self._body) - before, 0)
        if self._messages:
            message, body = self._messages[-1]
            if body.is_eof():
                self._body, self._chunked = None, False
            elif body is not self._body:
                self._body, self._chunked = body, getattr(message, "chunked", False)
                self.chunks = _count_chunks(body) if self._chunked else 0

    def _parse_piece(self) -> None:
        """Parse a piece of what was read, and let the rest wait for its turn."""
        if not self._pending or self.transport is None:
            return
        if self._is_held() or self.has_tiny_chunks():
            return  # it goes on when reading does, or never
        size, body = self._choose_size(), self._body
        piece, self._pending = self._pending[:size], self._pending[size:]
        self.parse(piece)
        if not self._pending:
            if not self._is_held():
                self._resume_transport_reading()
        elif self._body is not body and self._chunked:
            self._loop.call_later(UNWANTED_SECONDS, self.go_on)
        else:
            self.go_on()

    def _is_held(self) -> bool:
        """Return whether aiohttp takes no more for now: its buffers are full."""
        return self._reading_paused or self._buffer_paused

    def go_on(self) -> None:
        """Let what was read and not yet parsed have its turn."""
        if self._pending:
            self._turns.wait(self.owner, self._parse_piece)

    def _choose_size(self) -> int:
        if self._body is None or self._body.is_eof():
            end = self._pending.find(b"\r\n\r\n", 0, HEAD_BYTES)
            return HEAD_BYTES if end < 0 else end + 4
        if not self._chunked:
            return READ_BYTES
        least = PIECE_BYTES * max(self.chunks, 1)
        return HEAD_BYTES if self._body.total_bytes > least else PIECE_BYTES

    def resume_reading(self, resume_parser: bool = True) -> None:
        if self._reading_paused:  # aiohttp resumes for each chunk, and looks whether it had paused
            super().resume_reading(resume_parser)

    def _resume_transport_reading(self) -> None:
        """Go on with what was read before more is read, and never behind a refusal."""
        if self._unread_bytes == 0 and self._body is not None and not self._body.is_eof():
            return
        if self._pending:
            self.go_on()
        else:
            super()._resume_transport_reading()


def _count_chunks(body: StreamReader | None) -> int:
    """Return how many chunks of a body wait to be read."""
    splits = None if body is None else body._http_chunk_splits  # noqa: SLF001 - no public word
    return 0 if splits is None else len(splits)


def own_reading(http: web.BaseRequest, account_id: int) -> None:
    """Note whose share of the loop's turns the next reads of a connection are."""
    if isinstance(http.protocol, PacedConnection):
        http.protocol.owner = account_id


def want_body(http: web.BaseRequest) -> None:
    """Let the body of a request come, which is not refused."""
    if isinstance(http.protocol, PacedConnection):
        http.protocol.go_on()


def has_tiny_chunks(http: web.BaseRequest) -> bool:
    """Return whether a body comes in more and smaller chunks than any client sends."""
    return isinstance(http.protocol, PacedConnection) and http.protocol.has_tiny_chunks()


class Wire(asyncio.BufferedProtocol):
    """The protocol of a connection's transport, which reads so much at a time.

    With a plain protocol the event loop decides: asyncio reads 256 KiB, uvloop up to 8 MiB at once.
    """

    __slots__ = ("_connection",)

    _buffer: Final = memoryview(bytearray(READ_BYTES))
    """Of all connections: what is in it is copied in the same call."""
    _stranger_buffer: Final = _buffer[:STRANGER_BYTES]

    def __init__(self, connection: PacedConnection) -> None:
        self._connection = connection

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the protocol's signature
        return self._stranger_buffer if self._connection.owner is None else self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.data_received(bytes(self._buffer[:nbytes]))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()


log = logging.getLogger("gateway.connection")

KEPT_HEAD_BYTES: Final = 2048
"""Bytes of an unfinished head that are kept: its target, and most often the header that tells a dialect."""
UNPARSED: Final = "_unparsed"
"""The surface of what is no HTTP request."""
_TARGET: Final = re.compile(rb"(?:\A|\n)[^\s:]+ +(?:https?://[^/\s]*)?(/[^\s?#]*)")
"""The target of a request line. A header's name ends in a colon."""
_PROBLEMS: Final = (
    ("HTTPS traffic", "This port speaks HTTP, not HTTPS. Use http:// in the address."),
    ("Got more than", "The request line or a header is longer than 8,190 bytes."),
    ("Too many headers", "The request has too many headers."),
    ("'Host' header", "A request needs exactly one Host header."),
    ("HTTP version", "The HTTP version is not supported. Use HTTP/1.1."),
    ("Content-Length", "The length of the body is unclear. Send one Content-Length, a number."),
    (
        "Transfer-Encoding",
        "The length of the body is unclear. Send 'Transfer-Encoding: chunked' alone.",
    ),
    ("chunk", "The chunked encoding of the request body is malformed."),
)
"""Words in the parser's errors, and what the caller is told."""


class CallerConnection(PacedConnection):
    """A connection of the server; the gateway's state makes the replies."""

    __slots__ = ("_gateway", "_head", "is_asked", "is_known", "made", "was_known")

    def __init__(self, gateway: Gateway, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        super().__init__(server, loop=loop, **server._kwargs)  # noqa: SLF001 - as the server itself does
        self._gateway = gateway
        self._head = b""
        self.made = loop.time()
        self.is_asked = False
        """Whether a whole head came whose reply has not begun."""
        self.is_known = False
        """Whether the last request was admitted: with a key, or of somebody who is signed in."""
        self.was_known = False
        """Whether one before it was."""

    @property
    def is_answered(self) -> bool:
        """Whether a request was answered and no other has come."""
        is_at_rest = not (self.is_asked or self._request_in_progress or self._pending)
        return self._request_count > 0 and is_at_rest

    def parse(self, data: bytes) -> None:
        count = self._request_count
        if not self._request_in_progress:
            if self.is_known:
                self.was_known, self.is_known = True, False
            if len(self._head) < KEPT_HEAD_BYTES:
                self._head += data[:KEPT_HEAD_BYTES]
        super().parse(data)
        if self._request_count > count:
            self.is_asked = True

    def finish_response(
        self, request: BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> Coroutine[None, None, tuple[web.StreamResponse, bool]]:
        """Send a reply; aiohttp's own ones are replaced."""
        if isinstance(resp, web.HTTPException):
            resp = self._refuse(_translate(resp.status))
        self._head, self.is_asked = b"", False
        return super().finish_response(request, resp, start_time)

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what cannot be parsed, or an error that no handler caught."""
        if request.writer.output_size > 0:
            raise ConnectionError("a reply is under way")
        if isinstance(exc, HttpProcessingError):
            drop_frames(exc)  # the parser's frame names it: a cycle
            return self._refuse(BadRequest(_find_problem(message or "")))
        log.error("internal error (status %d)", status, exc_info=exc)
        return self._refuse(InternalError())

    def _refuse(self, error: GatewayError) -> web.Response:
        now_ms = unix_ms()
        caller = choose_caller(self._head)
        call = Call(
            self._gateway, make_request_id(now_ms), caller, time.monotonic(), now_ms, UNPARSED
        )
        response = render_error(call, error)
        response.headers.update(make_headers(call))
        response.force_close()
        self._gateway.log_call(call, response.status)
        return response


def make_connection(gateway: Gateway, server: web.Server) -> Wire:
    """Make the protocol of a new connection."""
    return Wire(CallerConnection(gateway, server))


def note_known(http: web.Request) -> None:
    """Note that the caller is known, so the connection is not closed for others while it is served."""
    if isinstance(http.protocol, CallerConnection):  # a test may serve by aiohttp's own
        http.protocol.is_known = True


def choose_caller(head: bytes) -> Caller:
    """Return the dialect of a request of which only this beginning is known: by path, or by a header."""
    first, *others = CALLERS.values()
    targets = _TARGET.findall(head)
    path = targets[-1].decode("ascii", "replace") if targets else ""
    lower = head.lower()
    for caller in CALLERS.values():
        if f"{path}/".startswith(f"/v1{caller.path}/"):
            return caller
    for caller in others:
        if caller.marker is not None and b"\n%b:" % caller.marker.encode() in lower:
            return caller
    return first


def _find_problem(message: str) -> str:
    """Return our own words for the parser's, which quote the request."""
    for words, told in _PROBLEMS:
        if words in message:
            return told
    return "The request is not valid HTTP/1.1."


def _translate(status: int) -> GatewayError:
    if status == web.HTTPExpectationFailed.status_code:
        return BadRequest("The header Expect may only be '100-continue'.")
    return NotFound(explain_path(""))
