"""The caller's connection: read in small pieces; what aiohttp's parser refuses is answered."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Coroutine
from typing import Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_request import BaseRequest

from gateway.api.aiohttp_insides import READ_BYTES, STRANGER_BYTES, PacedConnection
from gateway.api.call import Call, make_headers
from gateway.api.front import explain_path, render_error
from gateway.api.state import Gateway
from gateway.dialects.base import Caller
from gateway.dialects.exchanges import CALLERS
from gateway.errors import BadRequest, GatewayError, InternalError, NotFound, drop_frames
from gateway.ids import make_request_id
from gateway.times import unix_ms


class Wire(asyncio.BufferedProtocol):
    """The protocol of a connection's transport, which reads so much at a time.

    With a plain protocol the event loop decides: asyncio reads 256 KiB, uvloop up to 8 MiB at once.
    """

    __slots__ = ("_connection",)

    _buffer: Final = memoryview(bytearray(READ_BYTES))
    """Shared by all connections: what is in it is copied in the same call."""
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

    __slots__ = ("_gateway",)

    def __init__(self, gateway: Gateway, server: web.Server) -> None:
        super().__init__(server)
        self._gateway = gateway

    def finish_response(
        self, request: BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> Coroutine[None, None, tuple[web.StreamResponse, bool]]:
        """Send a reply; aiohttp's own ones are replaced."""
        # aiohttp's own bodies are plain text, which no SDK can read as an error.
        if isinstance(resp, web.HTTPException):
            resp = self._refuse(_translate(resp.status))
        return super().finish_response(request, resp, start_time)

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what cannot be parsed, or an error that no handler caught."""
        # A second head would pass for a part of the reply that is under way.
        if request.writer.output_size > 0:
            raise ConnectionError("a reply is under way")
        if isinstance(exc, HttpProcessingError):
            drop_frames(exc)  # the parser's frame names it: a cycle
            return self._refuse(BadRequest(_find_problem(message or "")))
        log.error("internal error (status %d)", status, exc_info=exc)
        return self._refuse(InternalError())

    def _refuse(self, error: GatewayError) -> web.Response:
        now_ms = unix_ms()
        caller = choose_caller(self.head)
        call = Call(
            self._gateway, make_request_id(now_ms), caller, time.monotonic(), now_ms, UNPARSED
        )
        response = render_error(call, error)
        response.headers.update(make_headers(call))
        # Where the next request begins is unknown behind bytes that cannot be parsed.
        response.force_close()
        self._gateway.log_call(call, response.status)
        return response


def make_connection(gateway: Gateway, server: web.Server) -> Wire:
    """Make the protocol of a new connection."""
    return Wire(CallerConnection(gateway, server))


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
