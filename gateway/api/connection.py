"""A caller's connection: what aiohttp would answer in plain text leaves in a dialect, with an id.

aiohttp answers by itself what its parser refuses, and targets that no route can have (`CONNECT`,
`OPTIONS *`). Its texts quote the request, in which there may be a key, so none of them leaves.
"""

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

from gateway.api.error_replies import render_error
from gateway.api.other_paths import explain_path
from gateway.api.reading import PacedConnection, Wire
from gateway.api.state import Call, Gateway, make_headers
from gateway.dialects import CALLERS, Caller
from gateway.errors import BadRequest, GatewayError, InternalError, NotFound, drop_frames
from gateway.request_ids import make_request_id
from gateway.times import unix_ms

log = logging.getLogger("gateway.connection")

HEAD_BYTES: Final = 2048
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
            if len(self._head) < HEAD_BYTES:
                self._head += data[:HEAD_BYTES]
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
