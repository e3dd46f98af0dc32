"""What every request passes, outermost first: dialect, caller, rate, balance (design.md §2).

The order of refusals is design.md §3's: 404 and 405, 401, 403, 503, 429, 402, then the body.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import hdrs, web

from gateway import apikeys, health
from gateway.dialects.base import ErrorDialect
from gateway.dialects.chat import ChatDialect
from gateway.dialects.messages import MessagesDialect
from gateway.errors import (
    AccountSuspended,
    BadRequest,
    BodyTooLarge,
    GatewayError,
    InsufficientBalance,
    InternalError,
    InvalidKey,
    LedgerUnavailable,
    MethodNotAllowed,
    NotFound,
    Overloaded,
)
from gateway.ledger.base import Key
from gateway.state import CALL, GATEWAY, Call, Gateway, make_headers, make_request_id
from gateway.times import unix_ms

log = logging.getLogger("gateway.middleware")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CHAT: Final = ChatDialect()
MESSAGES: Final = MessagesDialect()

COMPLETION_PATHS: Final = frozenset({"/v1/chat/completions", "/v1/messages"})
"""What costs money: here the balance must be positive and the ledger writable."""

CONSOLE_PREFIX: Final = "/console"
CONSOLE_API_PREFIX: Final = "/console/api/"

_BEARER: Final = "bearer "


def choose_dialect(path: str, *, has_anthropic_version: bool) -> ErrorDialect:
    """Whose errors a path speaks: its own, elsewhere by the header only Anthropic's SDKs send."""
    if path == "/v1/messages" or path.startswith("/v1/messages/"):
        return MESSAGES
    if path.startswith("/v1/chat/"):
        return CHAT
    return MESSAGES if has_anthropic_version else CHAT


@web.middleware
async def speak_dialect(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request its id and its dialect; nothing leaves but in that dialect."""
    dialect = choose_dialect(
        request.path, has_anthropic_version="anthropic-version" in request.headers
    )
    now_ms = unix_ms()
    call = Call(make_request_id(now_ms), dialect, time.monotonic(), now_ms)
    request[CALL] = call
    try:
        response = await handler(request)
    except GatewayError as error:
        response = _render(call, error)
    except web.HTTPException as error:
        response = _render(call, _translate(error))
    except Exception:
        log.exception("%s: internal error", call.request_id)
        response = _render(call, InternalError())
    if not response.prepared:
        response.headers.update(make_headers(call, time.monotonic()))
    if _is_worth_a_line(_find_route(request)):
        request.app[GATEWAY].log_call(call, call.status or response.status)
    return response


@web.middleware
async def know_caller(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find the key and its account, in memory; a path that leads nowhere needs none."""
    misrouted = request.match_info.http_exception
    if misrouted is not None:
        raise _translate(misrouted)
    if not _needs_key(_find_route(request)):
        return await handler(request)
    secret = read_key(request)
    key = None
    if apikeys.is_well_formed(secret):
        key = request.app[GATEWAY].ledger.find_key(apikeys.digest(secret))
    call = request[CALL]
    if key is None or not key.is_live(call.started_ms):
        raise InvalidKey
    call.key = key
    if key.account.suspended:
        raise AccountSuspended("This account is suspended. Ask whoever runs this gateway.")
    return await handler(request)


@web.middleware
async def limit_rate(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what is more than the gateway or the key may have; count the rest."""
    gateway, call = request.app[GATEWAY], request[CALL]
    if not _needs_key(_find_route(request)):
        return await handler(request)  # health has to be answered under any load
    assert call.key is not None
    _check_load(gateway, request)
    rates = call.rates = gateway.find_rates(call.key, call.started)
    rates.admit(call.started)
    gateway.in_flight += 1
    try:
        return await handler(request)
    finally:
        gateway.in_flight -= 1
        gateway.body_bytes -= call.body_bytes
        rates.release()


@web.middleware
async def require_balance(request: web.Request, handler: Handler) -> web.StreamResponse:
    """An early refusal; the binding check is the hold."""
    if is_completion(request):
        key = request[CALL].key
        assert key is not None
        check_balance(key)
    return await handler(request)


MIDDLEWARES: Final = (speak_dialect, know_caller, limit_rate, require_balance)


def read_key(request: web.Request) -> str:
    """The key of either header, or "". Raises BadRequest when two differ, InvalidKey for a hint."""
    headers = request.headers
    found = {
        value[len(_BEARER) :].strip()
        for value in headers.getall(hdrs.AUTHORIZATION, ())
        if value[: len(_BEARER)].lower() == _BEARER
    }
    found.update(value.strip() for value in headers.getall("x-api-key", ()))
    found.discard("")
    if len(found) > 1:
        raise BadRequest("The request carries two different API keys; send one.")
    if not found and apikeys.PREFIX in request.query_string:
        raise InvalidKey(
            "API keys are not read from the address, where logs keep them. Send yours in the "
            "header 'Authorization: Bearer sk-ru-...' or 'x-api-key: sk-ru-...'."
        )
    return found.pop() if found else ""


def check_balance(key: Key) -> None:
    """Raise InsufficientBalance when the account's balance or the key's cap is used up."""
    if key.account.balance_nano <= 0:
        raise InsufficientBalance(
            "The account's balance is not positive. Top it up in the console under Billing."
        )
    if key.cap_nano is not None and key.spent_nano >= key.cap_nano:
        raise InsufficientBalance("This key has spent its cap. Raise the cap or use another key.")


def is_completion(request: web.Request) -> bool:
    return _find_route(request) in COMPLETION_PATHS


def _find_route(request: web.Request) -> str:
    """The path of the route that matched, never what the request says of itself."""
    resource = request.match_info.route.resource
    return "" if resource is None else resource.canonical


def _needs_key(route: str) -> bool:
    """The console's routes ask for a session instead, each for itself (`console.door`)."""
    return route not in health.PATHS and not route.startswith(CONSOLE_PREFIX)


def _is_worth_a_line(route: str) -> bool:
    """Health is asked every second and says nothing new; a page is two dozen files."""
    return _needs_key(route) or route.startswith(CONSOLE_API_PREFIX)


def _check_load(gateway: Gateway, request: web.Request) -> None:
    if gateway.draining:
        raise Overloaded("The gateway is being restarted. Try again shortly.")
    if gateway.in_flight >= gateway.config.server.max_in_flight:
        raise Overloaded("The gateway has as many requests in flight as it may. Try again shortly.")
    if is_completion(request) and not gateway.ledger.writable:
        raise LedgerUnavailable


def _render(call: Call, error: GatewayError) -> web.Response:
    call.error_code = error.code
    response = web.Response(
        body=call.dialect.render_error(error, call.request_id),
        status=error.status,
        content_type="application/json",
    )
    if error.retry_after_seconds is not None:
        milliseconds = max(1, round(error.retry_after_seconds * 1000))
        response.headers["Retry-After"] = str(-(-milliseconds // 1000))
        response.headers["retry-after-ms"] = str(milliseconds)
    if not error.should_retry:
        response.headers["x-should-retry"] = "false"
    if isinstance(error, MethodNotAllowed):
        response.headers["Allow"] = error.allow
    if isinstance(error, BodyTooLarge):
        response.force_close()  # the rest of the body is not worth reading
    return response


def _translate(error: web.HTTPException) -> GatewayError:
    """aiohttp's own refusals in our words."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allow = ", ".join(sorted(error.allowed_methods))
        return MethodNotAllowed(f"Not allowed to {error.method} here; use {allow}.", allow=allow)
    if isinstance(error, web.HTTPNotFound):
        return NotFound(
            "Unknown URL. This gateway serves POST /v1/chat/completions, POST /v1/messages and "
            "GET /v1/models; there is no slash behind a path. An OpenAI SDK's base address ends "
            "in /v1, an Anthropic SDK's does not."
        )
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return BodyTooLarge("The request body is too large.")
    return InternalError()
