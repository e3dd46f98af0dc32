"""A caller's connection, and all other names inside aiohttp that requests and the server use.

A test checks each name. If another version of aiohttp lacks a name, that test fails and says which,
instead of a background task. Two more modules depend on aiohttp's insides: `sink` writes streams' chunks and
whole replies to the transport, `server.serve` asks which parser there is.

Requests are served by aiohttp's own loop. A copy of it that went on within the same call saved 73 calls,
2.4 turns and, at one connection, 5 % of the loop's CPU; at 64 connections it saved no CPU.
"""

# ruff: noqa: SLF001 - that is what this module is for

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from aiohttp import StreamReader, hdrs, web, web_protocol, web_response
from aiohttp.web_protocol import RequestHandler

from gateway.api.lingering import LINGER_BYTES, Lingering
from gateway.base.turns import LINGERING, Turns, find_turns

READ_BYTES: Final = 64 << 10
"""Bytes read at a time. Of a body with a length, as many are parsed at a time: they are cheap."""
STRANGER_BYTES: Final = 16 << 10
"""Bytes read at a time before a key is known: a thousand strangers may send at once."""
CHEAP_LINES: Final = 64
"""Lines of a read that is parsed at once: a head has twenty, a chunk two, and each takes 0.6 µs."""
PIECE_BYTES: Final = 1 << 10
"""Bytes of a chunked body parsed at a time: 0.2 ms, even if each chunk has a single byte."""
HEAD_BYTES: Final = 16 << 10
"""Bytes parsed at a time where a head should end, or of a body in large chunks: as many as are read from a
stranger at once."""
UPLOADING: Final = "uploading"
"""The owner of all turns in which long reads of strangers are parsed."""
UNWANTED_SECONDS: Final = 1.0
"""Seconds for which the chunks behind a head wait for a handler to read the body or refuse the request: a
refused body costs no parsing, and a request that no handler decides on does not stall its connection."""
TINY_CHUNKS: Final = 512
"""Chunks of any size that a body may have. Clients send chunks of 1 to 64 KiB, or a few small ones."""
TINY_BYTES: Final = 32
"""The least mean size of the chunks of a body that has more than `TINY_CHUNKS`."""
MAX_LENGTH_DIGITS: Final = 19
"""Digits of a Content-Length: more than any body has, and few enough for `int`."""
KEPT_HEAD_BYTES: Final = 2048
"""Bytes of an unfinished head that are kept: its target, and most often the header that tells a dialect."""

log = logging.getLogger("gateway.aiohttp_insides")

WebHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Fronts = Mapping[tuple[str, str], WebHandler]


@dataclass(slots=True)
class Visitor:
    """Whoever sends requests by a connection."""

    owner: Hashable = None
    """The account of the last request, which pays in turns of the loop; None for a stranger."""
    is_known: bool = False
    """The last request was authenticated: by a key, or by a console session."""
    was_known: bool = False
    """Any request was authenticated."""


class PacedConnection(RequestHandler):
    """aiohttp's connection, whose bytes are parsed in turn.

    aiohttp parses all that a read brought at once: 256 KiB may be 43,000 chunks of a byte, and so take
    60 ms. Here a read that may take long is parsed in pieces, in turns that connections share fairly.
    Bytes after a refused request are thrown away unparsed, so that its caller can read the refusal.
    """

    __slots__ = (
        "_body", "_chunked", "_fronts", "_linger_bytes", "_lingering", "_pending", "_route", "_turns",
        "chunks", "head", "is_asked", "made", "replied", "visitor",
    )  # fmt: skip

    def __init__(
        self, server: web.Server, fronts: Fronts, linger_bytes: int = LINGER_BYTES
    ) -> None:
        """`fronts`: handlers by method and path, for which no router is asked."""
        self._fronts = fronts
        self._linger_bytes = linger_bytes
        # The arguments that aiohttp's server passes to its own connections.
        super().__init__(server, loop=asyncio.get_running_loop(), **server._kwargs)
        self._route: WebHandler = server.request_handler
        self._request_handler = self._handle
        self._turns: Turns = find_turns()
        self.visitor = Visitor()
        self.chunks = 0
        """The chunks of the current body so far."""
        self._body: StreamReader | None = None
        """The body of the last request, until it is whole."""
        self._chunked = False
        """The current body comes in chunks."""
        self._pending = b""
        """Bytes read and not parsed yet. While there are any, reading is paused."""
        self._lingering: Lingering | None = None
        """Takes what comes behind the connection's last reply."""
        self.head = b""
        """The beginning of the current head."""
        self.made = self._loop.time()
        self.replied = 0.0
        """When the last reply ended, in the loop's time."""
        self.is_asked = False
        """Whether a whole head has arrived and its reply has not begun."""

    def data_received(self, data: bytes) -> None:
        if not data:  # aiohttp goes on with what its parser holds
            self.parse(data)
            return
        if self._lingering is not None:
            self._lingering.drop(len(data))
        # Appended to the waiting bytes, so that they keep their order.
        elif self._pending:
            self._pending += data
            self._pause_transport_reading()
        elif (is_dear := _is_dear(data)) or not self._turns.may_begin(self.visitor.owner):
            self._pending = data
            if is_dear:
                self._pause_transport_reading()
                self.queue_parsing()
            else:  # cheap bytes wait for one turn, in which rarely more arrive
                self._turns.defer(self.visitor.owner, self._parse_piece)
        else:
            self.parse(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._pending = b""
        self._body = None
        if self._lingering is not None:
            self._lingering.end()
        # aiohttp's loop would begin a request parsed in this turn, whose factory the next call removes.
        is_woken = self._waiter is not None and self._waiter.done()
        task = self._task_handler if is_woken else None
        if exc is not None:  # aiohttp keeps it in the request, which its frames hold
            exc.__traceback__ = None
        super().connection_lost(exc)
        if task is not None:
            task.cancel()

    def _handle(self, http: web.BaseRequest) -> Awaitable[web.StreamResponse]:
        """Call the handler of a request; aiohttp's router is asked only for paths with variables."""
        handler = None
        if hdrs.EXPECT not in http.headers:  # the router calls the expect handler first
            handler = self._fronts.get((http.method, http.raw_path))
        return (handler or self._route)(cast("web.Request", http))

    async def finish_response(
        self, request: web.BaseRequest, response: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Write a reply; it is the connection's last one if too much of the request is unread."""
        self.head, self.is_asked = b"", False
        # aiohttp's own errors have plain-text bodies, which no SDK reads as an error.
        if isinstance(response, web.HTTPException):
            response = self.handle_error(request, response.status, response)
        if not request.content.is_eof() or request._message is web_protocol.ERROR:
            self._drop_rest(request, response)
        response, is_lost = await super().finish_response(request, response, start_time)
        self.replied = self._loop.time()
        if self._lingering is not None and not is_lost:
            self._request_in_progress = False
            await self._lingering.wait()
            self.force_close()
        elif self._messages:
            # From Python 3.12 on aiohttp begins the next request of the same read in this turn.
            await asyncio.sleep(0)
        return response, is_lost

    def _drop_rest(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        """Throw away what still comes, unless it is the short rest of a body."""
        payload = request.content
        length = request.headers.get(hdrs.CONTENT_LENGTH, "")
        is_told = 0 < len(length) <= MAX_LENGTH_DIGITS
        if is_told and int(length) - payload.total_bytes <= READ_BYTES:
            return
        if self.transport is None:
            return
        response.force_close()
        # No client that means well sends tiny chunks, and others wait while they are read.
        most = READ_BYTES if self.has_tiny_chunks() else self._linger_bytes
        self._pending, self.visitor.owner, self._body = b"", LINGERING, None
        if type(payload) is StreamReader:  # it would keep what came until the connection ends
            payload._buffer.clear()
            payload._http_chunk_splits = None
        self._lingering = Lingering(self.transport, most, self._lingering_time)

    def log_exception(self, *args: object, **more: object) -> None:  # noqa: ARG002 - aiohttp's words
        """Log in our own words: aiohttp's quote the request."""
        log.error("a connection's request could not be answered", exc_info=bool(more))

    def _process_keepalive(self) -> None:
        """Do nothing: `server.connections` closes the connections that idle too long."""

    @property
    def is_lingering(self) -> bool:
        """Whether what comes is thrown away, for a while that has limits of its own."""
        return self._lingering is not None

    @property
    def is_answered(self) -> bool:
        """Whether a request was answered and no other has come."""
        is_idle = not (self.is_asked or self._request_in_progress or self._pending)
        return self._request_count > 0 and is_idle

    @property
    def is_at_rest(self) -> bool:
        """Whether a request was answered and no byte of another has come."""
        return self.is_answered and not self.head

    def has_tiny_chunks(self) -> bool:
        """Return whether the body comes in more and smaller chunks than any client sends."""
        body, count = self._body, self.chunks
        return count > TINY_CHUNKS and body is not None and body.total_bytes < TINY_BYTES * count

    def parse(self, data: bytes) -> None:
        """Let aiohttp parse bytes; count the chunks among them."""
        count = self._request_count
        if not self._request_in_progress:
            self.visitor.is_known = False
            if len(self.head) < KEPT_HEAD_BYTES:
                self.head += data[:KEPT_HEAD_BYTES]
        before = _count_chunks(self._body) if self._chunked else 0
        super().data_received(data)
        if self._request_count > count:
            self.is_asked = True
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
        """Parse a piece of the bytes read; the others wait for their turn."""
        if not self._pending or self.transport is None:
            return
        if self._is_full() or self.has_tiny_chunks():
            return  # parsing resumes together with reading, or never
        size, body = self._choose_size(), self._body
        piece, self._pending = self._pending[:size], self._pending[size:]
        self.parse(piece)
        if not self._pending:
            if not self._is_full():
                self._resume_transport_reading()
        # A new chunked body waits for `resume_body`, or this long: a refused request costs no parsing.
        elif self._body is not body and self._chunked:
            self._loop.call_later(UNWANTED_SECONDS, self.queue_parsing)
        else:
            self.queue_parsing()

    def _is_full(self) -> bool:
        """Return whether aiohttp takes no more for now: its buffers are full."""
        return self._reading_paused or self._buffer_paused

    def queue_parsing(self) -> None:
        """Queue the bytes that are not parsed yet for a turn; a stranger's short head overtakes them."""
        if self._pending:
            owner = UPLOADING if self.visitor.owner is None else self.visitor.owner
            self._turns.defer(owner, self._parse_piece)

    def _choose_size(self) -> int:
        if not _is_dear(self._pending):
            return STRANGER_BYTES  # all of them, as if they had not waited
        if self._body is None or self._body.is_eof():
            # A head alone, so that no chunk behind it is parsed before a handler wants the body.
            end = self._pending.find(b"\r\n\r\n", 0, HEAD_BYTES)
            return HEAD_BYTES if end < 0 else end + 4
        if not self._chunked:
            return READ_BYTES
        least = PIECE_BYTES * max(self.chunks, 1)
        return HEAD_BYTES if self._body.total_bytes > least else PIECE_BYTES

    def resume_reading(self, resume_parser: bool = True) -> None:
        if self._reading_paused:  # aiohttp calls this for each chunk, whether it had paused or not
            super().resume_reading(resume_parser)

    def _resume_transport_reading(self) -> None:
        """Parse what was read before reading more."""
        if self._pending:
            self.queue_parsing()
        else:
            super()._resume_transport_reading()


class Wire(asyncio.BufferedProtocol):
    """The protocol of a connection's transport. It limits the bytes of one read.

    With a plain protocol the event loop decides: asyncio reads 256 KiB, uvloop up to 8 MiB at once.
    """

    __slots__ = ("_connection",)

    _buffer: Final = memoryview(bytearray(READ_BYTES))
    """Shared by all connections: `buffer_updated` copies the bytes in the same call."""
    _stranger_buffer: Final = _buffer[:STRANGER_BYTES]

    def __init__(self, connection: PacedConnection) -> None:
        self._connection = connection

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - the protocol's signature
        return self._stranger_buffer if self._connection.visitor.owner is None else self._buffer

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


def _is_dear(data: bytes) -> bool:
    """Return whether bytes may take long to parse: they are many, or have many lines."""
    return len(data) >= STRANGER_BYTES or data.count(b"\n") > CHEAP_LINES


def _count_chunks(body: StreamReader | None) -> int:
    """Return how many chunks wait in a body's buffer."""
    return 0 if body is None else len(body._http_chunk_splits or ())


def take_body(http: web.BaseRequest) -> bytes | None:
    """Return a body that came whole with its head, as most do; None for any other."""
    content = http.content
    if not content.is_eof():
        return None
    # A body of chunks without content has no piece.
    if type(content) is not StreamReader or len(content._buffer) != 1:
        return content.read_nowait(-1)
    # aiohttp makes seven calls here: for a time-out, for chunks, and to resume a transport.
    content._size = 0
    return content._buffer.popleft()


def has_queued_message(http: web.BaseRequest) -> bool:
    """Return whether aiohttp has queued a message after this request."""
    return bool(http.protocol._messages)


def list_connections(server: web.Server) -> Collection[RequestHandler]:
    """Return the connections themselves: the public property copies them."""
    return server._connections


def is_serving(connection: RequestHandler) -> bool:
    """Return whether a request of the connection is being served."""
    return connection._request_in_progress


def is_between_requests(connection: RequestHandler) -> bool:
    """Return whether the connection waits for another request: its task waits, and nothing will wake it."""
    waiter = connection._waiter
    is_waiting = waiter is not None and not waiter.done() and not connection._messages
    return is_waiting and connection._request_count > 0


def has_whole_request(connection: RequestHandler) -> bool:
    """Return whether a request that came whole is being served."""
    request = connection._current_request
    return request is not None and request.content.is_eof()


def name_server(name: str) -> None:
    """Set the `Server` header of aiohttp's own replies, which otherwise name aiohttp and its version."""
    web_response.SERVER_SOFTWARE = name  # type: ignore[attr-defined] # it is not exported
