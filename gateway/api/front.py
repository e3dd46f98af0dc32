"""The outermost layer of each route: request ids, dialects, errors as replies, refused paths and methods.

Each route is wrapped in the layers it needs when the application is made, so no layer has to look at
paths. The order of refusals is: 404 and 405, 401, 403, 503, 429, 402, then the body. Callers'
connections are read in small pieces. Requests that aiohttp's parser refuses are answered here, too.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Final, NoReturn

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_request import BaseRequest

from gateway import errors
from gateway.addresses import find_address
from gateway.api.aiohttp_insides import (
    MAX_LENGTH_DIGITS,
    READ_BYTES,
    STRANGER_BYTES,
    PacedConnection,
    WebHandler,
)
from gateway.api.lingering import LINGER_BYTES
from gateway.api.state import Call, Gateway, find_code, make_headers, note_refusal
from gateway.dialects.base import Caller
from gateway.extension import find_formats
from gateway.ids import make_request_id
from gateway.times import unix_ms

log = logging.getLogger("gateway.front")

Handler = Callable[[web.Request, Call], Awaitable[web.StreamResponse]]
"""A handler within the front."""


def make_front(
    gateway: Gateway,
    handler: Handler,
    callers: Iterable[Caller] | None = None,
    *,
    surface: str,
    logged: bool = True,
) -> WebHandler:
    """Wrap a handler in the outermost layer, which gives each request an id and answers every error.

    `callers`: the path's dialects, or else all. A request with the `marker` header of one is answered in that dialect,
    any other in the first. `surface`: the path in metrics. `logged`: appears in log and metrics.
    """
    first, *others = find_formats().callers.values() if callers is None else callers

    async def front(http: web.Request) -> web.StreamResponse:
        now_ms = gateway.ledger.clock()
        caller = _choose(http, first, others) if others else first
        call = Call(gateway, make_request_id(now_ms), caller, time.monotonic(), now_ms, surface)
        try:
            if hdrs.TRANSFER_ENCODING in http.headers:
                check_framing(http)
            response = await handler(http, call)
        except Exception as error:  # noqa: BLE001 - `_answer` distinguishes
            response = _answer(call, error)
        except asyncio.CancelledError:  # the gateway stops
            if logged:
                gateway.note_end(call, call.status or errors.Overloaded.status)
            raise
        # A stream sent its own headers with its head; they cannot be changed any more.
        if not response.prepared:
            response.headers.update(make_headers(call))
            # A connection that is kept during a drain would be cut a moment later.
            if gateway.draining:
                response.force_close()
        if logged:
            gateway.note_end(call, call.status or response.status)
        return response

    return front


def _answer(call: Call, error: Exception) -> web.Response:
    """Render the error that ends a request; log it if it is not a GatewayError."""
    if isinstance(error, errors.GatewayError):
        known = error
    else:
        log.error("%s: internal error", call.request_id, exc_info=error)
        known = errors.InternalError()
    response = render_error(call, known)
    note_refusal(call, known)
    errors.drop_frames(error)
    return response


def _choose(http: web.Request, first: Caller, others: Sequence[Caller]) -> Caller:
    for caller in others:
        if caller.marker in http.headers:
            return caller
    return first


def check_framing(http: web.Request) -> None:
    """Raise BadRequest for a body that was compressed on its way: `gzip, chunked` (RFC 9112, 6.1).

    Also for a length that no integer has: aiohttp's parser takes zeros without end.
    """
    if len(http.headers.get(hdrs.CONTENT_LENGTH, "")) > MAX_LENGTH_DIGITS:
        raise errors.BadRequest("The Content-Length has too many digits.")
    encodings = http.headers.getall(hdrs.TRANSFER_ENCODING, ())
    if encodings and ",".join(encodings).strip().lower() != "chunked":
        raise errors.BadRequest("Of transfer encodings only 'chunked' is supported.")


def render_error(call: Call, error: errors.GatewayError) -> web.Response:
    """Render an error reply; the call notes its code for the log line."""
    call.error_code = find_code(error)
    response = web.Response(
        body=call.dialect.render_error(error, call.request_id),
        status=error.status,
        content_type="application/json",
    )
    if error.retry_after_seconds is not None:
        milliseconds = max(1, round(error.retry_after_seconds * 1000))
        # Rounded up: a retry that comes too early is refused again.
        response.headers["Retry-After"] = str(-(-milliseconds // 1000))
        # OpenAI's and Anthropic's SDKs prefer this header to Retry-After.
        response.headers["retry-after-ms"] = str(milliseconds)
    if not error.should_retry:
        # OpenAI's and Anthropic's SDKs obey this header, whatever the status says.
        response.headers["x-should-retry"] = "false"
    if isinstance(error, errors.MethodNotAllowed):
        # A 405 has to list the allowed methods (RFC 9110 §15.5.6).
        response.headers["Allow"] = error.allow
    return response


def refuse_path(served: Collection[str]) -> Callable[[web.Request, Call], Awaitable[NoReturn]]:
    """Make the handler of unknown paths. `served` are the known ones."""

    async def refuse(http: web.Request, call: Call) -> NoReturn:
        proxies = call.gateway.config.server.trusted_proxies
        forwarded = http.headers.getall(hdrs.X_FORWARDED_FOR, ())
        address = find_address(http.remote or "", forwarded, proxies)
        call.visit = {"method": http.method, "path": clean_path(http.path), "address": address}
        raise errors.NotFound(explain_path(http.path, served))

    return refuse


def refuse_method(allow: str) -> Callable[[web.Request, Call], Awaitable[NoReturn]]:
    """Make the handler of the methods that a path does not have."""

    async def refuse(http: web.Request, call: Call) -> NoReturn:  # noqa: ARG001 - a handler
        raise errors.MethodNotAllowed(
            f"Not allowed to {http.method} here; use {allow}.", allow=allow
        )

    return refuse


MAX_PATH_CHARS: Final = 80
"""Characters of an unknown path that are logged."""
_UNCLEAN: Final = re.compile(r"[^!-~]+|sk-[^/]*")


def clean_path(path: str) -> str:
    """Return the beginning of a path for the log, without keys and control characters."""
    return _UNCLEAN.sub("…", path[: 2 * MAX_PATH_CHARS])[:MAX_PATH_CHARS]


_CHAT: Final = "use POST /v1/chat/completions"
_ONE_BY_ONE: Final = "send each request by itself, as POST /v1/chat/completions or /v1/messages"
_WITHIN: Final = "send the content within a request, as POST /v1/chat/completions or /v1/messages"

UNSERVED: Final = {
    "/v1/edits": _CHAT,
    "/v1/engines": _CHAT,
    "/v1/chat/completions/...": f"completions are not stored here; {_CHAT}",
    "/v1/complete": "use POST /v1/messages",
    "/v1/messages/batches": "send each request by itself, as POST /v1/messages",
    "/v1/messages/...": "use POST /v1/messages",
    "/v1/assistants": _CHAT,
    "/v1/conversations": _CHAT,
    "/v1/threads": _CHAT,
    "/v1/batches": _ONE_BY_ONE,
    "/v1/containers": _WITHIN,
    "/v1/files": _WITHIN,
    "/v1/skills": _WITHIN,
    "/v1/uploads": _WITHIN,
    "/v1/vector_stores": _WITHIN,
    **dict.fromkeys(
        (
            "/v1/audio/translations",
            "/v1/chatkit",
            "/v1/evals",
            "/v1/fine_tuning",
            "/v1/images/edits",
            "/v1/images/variations",
            "/v1/moderations",
            "/v1/organization",
            "/v1/organizations",
            "/v1/realtime",
            "/v1/videos",
        ),
        "",
    ),
}
"""Paths of OpenAI and Anthropic that are not served (nor any path below them), and what to use instead; ""
if nothing could stand for them."""


def _list_paths() -> str:
    paths = ", ".join(f"POST /v1{one.path}" for one in find_formats().every_caller)
    return f"this gateway serves {paths} and GET /v1/models"


def explain_path(path: str, served: Iterable[str] = ()) -> str:
    """Return the message to a caller of an unknown path. `served` holds templates, too."""
    if path == "/":
        return f"The API is under /v1, the console under /console/: {_list_paths()}."
    meant = "/v1/" + "/".join(part for part in path.split("/") if part not in ("", "v1"))
    for template in served:
        fixed, brace, _ = template.partition("{")
        if _fits(meant, template):
            return (
                f"Unknown URL. Use {fixed}{'...' if brace else ''}: an OpenAI SDK's base address"
                " ends in /v1, an Anthropic SDK's does not, and no path ends in a slash."
            )
    for unserved, advice in {**UNSERVED, **find_formats().unserved}.items():
        fixed = unserved.removesuffix("/...")
        if f"{meant}/".startswith(f"{fixed}/"):
            return f"{unserved} is not served here; {advice or _list_paths()}."
    return (
        f"Unknown URL: {_list_paths()}. An OpenAI SDK's base address ends in /v1, an Anthropic SDK's does"
        " not."
    )


def _fits(path: str, template: str) -> bool:
    """Return whether a path is one of a route: `{name}` is a segment, `{name:.+}` all that follows."""
    fixed, _, rest = template.partition("{")
    if ":" in rest:
        return path.startswith(fixed)
    parts, names = path.split("/"), template.split("/")
    pairs = zip(parts, names, strict=False)
    return len(parts) == len(names) and all(name == part or "{" in name for part, name in pairs)


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
        # Their bodies are plain text, which no SDK reads as an error.
        if isinstance(exc, web.HTTPException):
            return self._refuse(_translate(exc.status))
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
        self._gateway.note_end(call, response.status)
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
