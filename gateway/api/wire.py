"""A caller's connection, with errors in a dialect for bytes that are no request."""

from __future__ import annotations

import logging
import re
import time
from typing import Final

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_request import BaseRequest

from gateway.api.aiohttp_insides import PacedConnection, Wire
from gateway.api.front import Call, make_headers, render_error
from gateway.api.lingering import LINGER_BYTES
from gateway.api.paths import explain_path
from gateway.api.state import Gateway
from gateway.base import errors
from gateway.base.ids import make_request_id
from gateway.base.times import unix_ms
from gateway.dialects.wire.base import Caller
from gateway.extension import find_formats

log = logging.getLogger("gateway.front")


UNPARSED: Final = "_unparsed"
"""The surface of bytes that are no HTTP request."""
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
"""Words in the parser's errors, and the message for the caller."""


class CallerConnection(PacedConnection):
    """A caller's connection. Requests that cannot be parsed get an error in a dialect."""

    __slots__ = ("_gateway",)

    def __init__(self, gateway: Gateway, server: web.Server) -> None:
        largest = gateway.config.server.max_body_mb << 20
        super().__init__(server, gateway.fronts, max(LINGER_BYTES, 2 * largest))
        self._gateway = gateway

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that cannot be parsed, or an error that no handler caught."""
        # The caller would take a second head for a part of the reply under way.
        if request.writer.output_size > 0:
            raise ConnectionError("a reply is under way")
        if isinstance(exc, web.HTTPException):
            return self._refuse(_translate(exc.status))
        # aiohttp's refusal repeats the header, whose characters it cannot encode.
        if isinstance(exc, UnicodeEncodeError) and request.headers.get(hdrs.EXPECT):
            return self._refuse(_translate(web.HTTPExpectationFailed.status_code))
        if isinstance(exc, HttpProcessingError):
            errors.drop_frames(exc)  # the parser's frame refers to the error: a cycle
            return self._refuse(errors.BadRequest(_find_problem(message or "")))
        log.error("internal error (status %d)", status, exc_info=exc)
        return self._refuse(errors.InternalError())

    def _refuse(self, error: errors.GatewayError) -> web.Response:
        now_ms = unix_ms()
        caller = choose_caller(self.head)
        call = Call(
            self._gateway, make_request_id(now_ms), caller, time.monotonic(), now_ms, UNPARSED
        )
        response = render_error(call, error)
        response.headers.update(make_headers(call))
        # After bytes that cannot be parsed nobody knows where the next request begins.
        response.force_close()
        call.end(response.status)
        return response


def make_connection(gateway: Gateway, server: web.Server) -> Wire:
    """Make the protocol of a new connection."""
    return Wire(CallerConnection(gateway, server))


def choose_caller(head: bytes) -> Caller:
    """Choose the dialect of a request by the beginning of its head: by path, or by a header."""
    first, *others = callers = find_formats().callers.values()
    targets = _TARGET.findall(head)
    path = targets[-1].decode("ascii", "replace") if targets else ""
    lower = head.lower()
    for caller in callers:
        if f"{path}/".startswith(f"/v1{caller.path}/"):
            return caller
    for caller in others:
        if caller.marker is not None and b"\n%b:" % caller.marker.encode() in lower:
            return caller
    return first


def _find_problem(message: str) -> str:
    """Return our own message in place of the parser's, which quotes the request."""
    for words, reply in _PROBLEMS:
        if words in message:
            return reply
    return "The request is not valid HTTP/1.1."


def _translate(status: int) -> errors.GatewayError:
    if status == web.HTTPExpectationFailed.status_code:
        return errors.BadRequest("The header Expect may only be '100-continue'.")
    return errors.NotFound(explain_path(""))
