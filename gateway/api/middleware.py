"""The middlewares of `/v1`: dialect, caller, rate, balance.

Each application is built with the chain that it needs, so no middleware asks a path whether it
applies. The order of refusals is: 404 and 405, 401, 403, 503, 429, 402, then the body.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from gateway import apikeys
from gateway.api.body import release_body
from gateway.api.ended_keys import refuse_ended
from gateway.api.error_replies import render_error, translate_http_error
from gateway.api.state import CALL, GATEWAY, Call, Gateway, make_headers
from gateway.dialects import CALLERS, Caller
from gateway.errors import (
    RESTARTING,
    AccountSuspended,
    BadRequest,
    GatewayError,
    InsufficientBalance,
    InternalError,
    InvalidKey,
    LedgerUnavailable,
    Overloaded,
    RateLimited,
)
from gateway.ledger import EndedKey, Key, Ledger
from gateway.request_ids import make_request_id
from gateway.times import unix_ms

log = logging.getLogger("gateway.middleware")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

REFRESH_SECONDS: Final = 1.0
"""How long an unknown key waits for the latest changes, as a ledger that hangs must not hold up its
refusal."""
_BEARER: Final = "bearer "


def make_front(*callers: Caller, logged: bool = True) -> Middleware:
    """Make the outermost middleware, which gives each request an id and answers every error.

    `callers`: those who use the paths, by default all. Whose `marker` a request has is answered in
    its dialect, any other request in the first one's. `logged`: each request gets a line in the log.
    """
    first, *others = callers or CALLERS.values()

    @web.middleware
    async def front(request: web.Request, handler: Handler) -> web.StreamResponse:
        now_ms = unix_ms()
        caller = _choose(request, first, others)
        call = Call(make_request_id(now_ms), caller, time.monotonic(), now_ms)
        request[CALL] = call
        try:
            check_framing(request)
            response = await handler(request)
        except GatewayError as error:
            response = render_error(call, error)
        except web.HTTPException as error:
            response = render_error(call, translate_http_error(error))
        except Exception:
            log.exception("%s: internal error", call.request_id)
            response = render_error(call, InternalError())
        if not response.prepared:
            response.headers.update(make_headers(call, time.monotonic()))
        if logged:
            request.app[GATEWAY].log_call(call, call.status or response.status)
        return response

    return front


def _choose(request: web.Request, first: Caller, others: Sequence[Caller]) -> Caller:
    for caller in others:
        if caller.marker in request.headers:
            return caller
    return first


@web.middleware
async def know_caller(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Find the key and its account. Unknown paths need no key."""
    misrouted = request.match_info.http_exception
    if misrouted is not None:
        raise translate_http_error(misrouted)
    secret = read_key(request)
    if not apikeys.is_well_formed(secret):
        raise InvalidKey
    gateway, call, digest = request.app[GATEWAY], request[CALL], apikeys.digest(secret)
    ledger = gateway.ledger
    try:
        call.key = check_standing(ledger.find_key(digest), call.started_ms)
    except (InvalidKey, AccountSuspended):
        await catch_up(ledger)
        key = ledger.find_key(digest)
        if key is None:
            raise await gateway.ended_keys.explain(ledger, digest) from None
        call.key = check_standing(key, call.started_ms)
    return await handler(request)


async def catch_up(ledger: Ledger) -> None:
    """Wait for what the command line has just committed, such as a key, a credit or a higher limit.

    All requests that wait share one look at the ledger, which takes a millisecond.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REFRESH_SECONDS):
            await ledger.refresh()


def make_rate_limit(*, for_money: bool) -> Middleware:
    """Refuse what exceeds the limits of the gateway, the account or the key; count the rest.

    `for_money`: the requests are charged, so the ledger must be writable.
    """

    @web.middleware
    async def limit_rate(request: web.Request, handler: Handler) -> web.StreamResponse:
        gateway, call = request.app[GATEWAY], request[CALL]
        check_capacity(gateway, for_money=for_money)
        assert call.key is not None
        rates = call.rates = gateway.find_rates(call.key, call.started)
        try:
            rates.admit(call.started)
        except RateLimited:
            await catch_up(gateway.ledger)
            check_capacity(gateway, for_money=for_money)
            gateway.find_rates(call.key, now := time.monotonic()).admit(now)
        gateway.in_flight += 1
        try:
            return await handler(request)
        finally:
            gateway.in_flight -= 1
            release_body(gateway, call)
            rates.release()

    return limit_rate


def check_capacity(gateway: Gateway, *, for_money: bool) -> None:
    """Raise Overloaded or LedgerUnavailable if the gateway can take no request at all."""
    if gateway.draining:
        raise Overloaded(RESTARTING)
    if gateway.in_flight >= gateway.config.server.max_in_flight:
        raise Overloaded("The gateway has as many requests in flight as it may. Try again shortly.")
    if for_money and not gateway.ledger.writable:
        raise LedgerUnavailable


@web.middleware
async def require_balance(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse accounts that cannot pay before their bodies are read. The hold checks again."""
    key = request[CALL].key
    assert key is not None
    try:
        check_balance(key)
    except InsufficientBalance:
        await catch_up(request.app[GATEWAY].ledger)
        check_balance(key)
    return await handler(request)


def check_framing(request: web.Request) -> None:
    """Raise BadRequest for a body that was compressed on its way: `gzip, chunked` (RFC 9112, 6.1)."""
    encodings = request.headers.getall(hdrs.TRANSFER_ENCODING, ())
    if encodings and ",".join(encodings).strip().lower() != "chunked":
        raise BadRequest("Of transfer encodings only 'chunked' is supported.")


def read_key(request: web.Request) -> str:
    """Return the key of either header, or "".

    Raises BadRequest when two keys differ, and InvalidKey for a key in the query string.
    """
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
        raise InvalidKey("API keys are not read from the address, where logs keep them.")
    return found.pop() if found else ""


def check_standing(key: Key | None, now_ms: int) -> Key:
    """Return a key that may be used.

    Raises InvalidKey for one that is unknown, revoked or expired, AccountSuspended for its account.
    """
    if key is None:
        raise InvalidKey
    if not key.is_live(now_ms):
        raise refuse_ended(EndedKey(key.revoked_ms, key.terms.expires_ms))
    if key.account.suspended:
        raise AccountSuspended("This account is suspended. Ask whoever runs this gateway.")
    return key


def check_balance(key: Key) -> None:
    """Raise InsufficientBalance when the account's balance or the key's cap is used up."""
    if key.account.balance_nano <= 0:
        raise InsufficientBalance(
            "The account's balance is not positive. Top it up in the console under Billing."
        )
    cap_nano = key.terms.cap_nano
    if cap_nano is not None and key.spent_nano >= cap_nano:
        raise InsufficientBalance("This key has spent its cap. Raise the cap or use another key.")
