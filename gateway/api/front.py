"""The outermost layer of each route: request ids, dialects, errors as replies.

Each route is wrapped in the layers it needs when the application is made, so no layer has to look at
paths. The order of refusals is: 404 and 405, 401, 403, 503, 429, 402, then the body.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from aiohttp import hdrs, web

from gateway.api.aiohttp_insides import MAX_LENGTH_DIGITS, WebHandler
from gateway.api.call import Call, find_code, make_headers
from gateway.api.state import Gateway
from gateway.base import errors
from gateway.base.ids import make_request_id
from gateway.dialects.wire.base import Caller
from gateway.extension import find_formats

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
                call.end(errors.Overloaded.status)
            raise
        # A stream sent its own headers with its head; they cannot be changed any more.
        if not response.prepared:
            response.headers.update(make_headers(call))
            # A connection that is kept during a drain would be cut a moment later.
            if gateway.draining:
                response.force_close()
        if logged:
            call.end(response.status)
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
    for tell in call.gateway.refusal_listeners:
        tell(call, known)
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
