"""The record of each request, and the outermost layer, which begins and ends it: id, dialect, errors as replies.

The record has what more than one stage needs to know, and the facts for the log line. What is logged or counted is
never a key, a prompt or a reply.

Each route is wrapped in the layers it needs when the application is made, so no layer has to look at
paths. The order of refusals is: 404 and 405, 401, 403, 503, 429, 402, then the body.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, ParamSpec

from aiohttp import hdrs, web

from gateway.api.aiohttp_insides import MAX_LENGTH_DIGITS, WebHandler
from gateway.base import errors
from gateway.base.ids import make_request_id
from gateway.base.money import format_amount
from gateway.dialects.wire.base import Caller
from gateway.extension import find_formats
from gateway.ledger.base import Key, Settlement

if TYPE_CHECKING:
    from gateway.api.limits import Rates
    from gateway.api.state import Gateway  # which has the calls' shares

log = logging.getLogger("gateway.front")


@dataclass(slots=True)
class Call:
    """One request: its state, and the facts for its log line.

    The fields are in the order in which they are set. A request that is refused keeps the defaults of the rest:

        `front`, `wire`               all from gateway to surface; error_code with any error reply
        the console, `paths`          visit
        `keys`                        key, then rates
        `bodies`, `sink`              waited_seconds, buffered_bytes, reply_bytes, as bytes come and go
        `admission`                   stream; asked_model if that one is refused, or else model, provider
        `billing`                     balance_nano once the hold is taken
        `completions`                 provider, upstream_model, failed, waited_seconds, with each try
        `billing`                     settlement

    `end` shows it to the log, metrics and observations. What only the settlement needs, `Bill` has.
    """

    gateway: Gateway
    request_id: str
    dialect: Caller
    started: float
    """Monotonic seconds."""
    started_ms: int
    """Wall clock, Unix milliseconds."""
    surface: str = ""
    """The request's path in metrics, or the part of the application it belongs to."""
    error_code: str | None = None
    """The code of an error reply, see `find_code`."""
    visit: Mapping[str, str] = field(default_factory=dict)
    """For the log line of a request to the console or an unknown path: method, path, address of the
    visitor."""
    key: Key | None = None
    """Set even if it may not be used, as refusals count by account; `rates` are set only if it may."""
    rates: Rates | None = None
    waited_seconds: float = 0.0
    """The time spent waiting for the caller's body or a provider."""
    buffered_bytes: int = 0
    """The request's part of its account's `Share`."""
    reply_bytes: int = 0
    """The reply's part of `buffered_bytes`."""
    stream: bool = False
    asked_model: str = ""
    """The model that the request names, if it can be a name; `model` is set once the caller may use
    it."""
    model: str = ""
    provider: str = ""
    """The first one, and then the one that is tried."""
    balance_nano: int | None = None
    """The available balance when the hold was taken."""
    upstream_model: str = ""
    failed: str = ""
    """The routes that failed, each with its cause."""
    settlement: Settlement | None = None
    """The first one, as it is in the ledger; its status is the one sent to the caller, or that would have
    been sent had it stayed. None for a request that was not admitted, and while it is in flight."""

    def note_failure(self, route: str, cause: str) -> None:
        """Note that a route did not serve the request."""
        self.failed += f"{'; ' if self.failed else ''}{route}: {cause}"

    def end(self, status: int) -> None:
        """Tell the log and metrics that the request has ended.

        `status` is the reply's. If the request was settled, the settlement's counts.
        """
        if self.settlement is not None:
            status = self.settlement.status
        tell(self.gateway.listeners, self, status)


Facts = ParamSpec("Facts")


def tell(
    listeners: Iterable[Callable[Facts, object]], *facts: Facts.args, **more: Facts.kwargs
) -> None:
    """Call listeners. A bug in one, most often an extra's, is logged: it must not cost the caller its reply."""
    for listener in listeners:
        try:
            listener(*facts, **more)
        except Exception:
            log.exception("a listener failed")


class KeyedCall(Call):
    """A request whose key and rates are known: `authorize` has set them. Only the type is another."""

    __slots__ = ()
    key: Key
    rates: Rates


def make_headers(call: Call) -> Mapping[str, str]:
    """Make the headers that every reply to this request carries."""
    headers = call.dialect.reply_headers(call.request_id)
    if call.rates is not None and (limits := call.rates.list_limits(time.monotonic())):
        headers.update(call.dialect.limit_headers(limits, call.started_ms))
    if call.balance_nano is not None:
        headers["x-gateway-balance"] = format_amount(call.balance_nano)
    return headers


_PLAIN: Final = re.compile(r"[a-z_]{1,40}")


def find_code(error: errors.GatewayError) -> str:
    """Return an error's code for logs and tables, or its type: a provider's code could be any text."""
    return error.code if error.code and _PLAIN.fullmatch(error.code) else error.type


Handler = Callable[[web.Request, Call], Awaitable[web.StreamResponse]]
"""A handler within the front."""
KeyHandler = Callable[[web.Request, KeyedCall], Awaitable[web.StreamResponse]]
"""A handler within `require_key`."""


def make_front(
    gateway: Gateway,
    handler: Handler,
    callers: Iterable[Caller] | None = None,
    *,
    surface: str,
    logged: bool = True,
) -> WebHandler:
    """Wrap a handler in the outermost layer, which gives each request an id and answers every error.

    `callers`: the path's dialects, or None for all. A request with the `marker` header of one is answered in
    that dialect, any other in the first. `surface`: the path in metrics. `logged`: it is logged and counted.
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
    tell(call.gateway.refusal_listeners, call, known)
    errors.drop_frames(error)
    return response


def _choose(http: web.Request, first: Caller, others: Sequence[Caller]) -> Caller:
    for caller in others:
        if caller.marker in http.headers:
            return caller
    return first


def check_framing(http: web.Request) -> None:
    """Raise BadRequest for a body that was compressed on its way: `gzip, chunked` (RFC 9112 §6.1).

    Also for a Content-Length of too many digits: aiohttp's parser accepts zeros without end.
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
