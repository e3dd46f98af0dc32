"""The way of a console request: origin, session, role, body, handler; errors as JSON.

Nothing of the API is reached but through `make_handler`, and a route without a session has to say
so: whatever is not in the table of routes is refused.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import orjson
from aiohttp import hdrs, web

from gateway.console import origin
from gateway.console.cookies import read_session_token, write_session_cookie
from gateway.console.headers import API_HEADERS
from gateway.console.refusals import (
    ConsoleError,
    internal_error,
    not_found,
    not_signed_in,
    phrase,
    unavailable,
)
from gateway.console.state import CONSOLE, Answer, Route, Visit, find_local
from gateway.ledger.base import LedgerError
from gateway.ledger.book import Actor
from gateway.ledger.records import Conflict, NotFound, Refused, SessionView
from gateway.signin import find_session
from gateway.state import CALL, GATEWAY, Gateway

log = logging.getLogger("gateway.console")

MAX_BODY_BYTES: Final = 64 * 1024
BODY_SECONDS: Final = 10.0
REFRESH_SECONDS: Final = 1.0
_SAFE: Final = frozenset({hdrs.METH_GET, hdrs.METH_HEAD, hdrs.METH_OPTIONS})


def make_handler(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The aiohttp handler of one route; what it replies is always JSON, CSV or nothing."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            return await _serve(request, route)
        except ConsoleError as error:
            refusal = error
        except NotFound as error:
            refusal = _translate(404, error)
        except Conflict as error:
            refusal = _translate(409, error)
        except Refused as error:
            refusal = _translate(400, error)
        except LedgerError as error:
            refusal = _report_outage(request, error)
        except Exception:
            log.exception("%s: internal error", request[CALL].request_id)
            refusal = internal_error()
        return _render_error(request, refusal)

    return handle


def refuse_method(allowed: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        message = f"Not allowed to {request.method} here; use {allowed}."
        response = _render_error(request, ConsoleError(405, "method_not_allowed", message))
        response.headers[hdrs.ALLOW] = allowed
        return response

    return handle


async def refuse_path(request: web.Request) -> web.StreamResponse:
    return _render_error(request, not_found("address"))


def _report_outage(request: web.Request, error: LedgerError) -> ConsoleError:
    """A full disk, or somebody who holds the database: no fault of the code, so no traceback."""
    log.error("%s: the ledger failed: %s", request[CALL].request_id, error)
    return unavailable("The ledger cannot be used just now. Try again shortly.")


async def _serve(request: web.Request, route: Route) -> web.StreamResponse:
    gateway = request.app[GATEWAY]
    if gateway.draining:
        raise unavailable("The gateway is being restarted. Try again shortly.")
    is_change = request.method not in _SAFE
    if is_change:
        _check_origin(request, gateway)
    visit = await _admit(request, gateway, route)
    if is_change and route.role != "none":
        _limit_changes(visit)
    answer = await route.handler(visit)
    if is_change:
        await _refresh(gateway)
    if isinstance(answer, web.StreamResponse):
        return answer
    return _render(answer, gateway)


def _limit_changes(visit: Visit) -> None:
    """A holder must not be able to fill the disk. Raises ConsoleError."""
    account = visit.account
    wait_seconds = 0 if account.operator else visit.console.changes.take(account.id)
    if wait_seconds:
        raise ConsoleError(
            429,
            "too_many_tries",
            f"Too many changes within an hour. Wait {wait_seconds} seconds, then go on.",
            retry_after_seconds=wait_seconds,
        )


def _check_origin(request: web.Request, gateway: Gateway) -> None:
    own = origin.find_own_origins(gateway.config.server, find_local(request))
    if not origin.is_same_site(request.headers, own):
        raise ConsoleError(
            403,
            "cross_site",
            "This request came from another site. Open the console itself, at the address that"
            " public_url names in gateway.toml.",
        )


async def _admit(request: web.Request, gateway: Gateway, route: Route) -> Visit:
    """Who it is, whether they may, and what they say. Raises ConsoleError."""
    console = request.app[CONSOLE]
    forwarded = request.headers.getall(hdrs.X_FORWARDED_FOR, [])
    address = origin.find_address(
        request.remote or "", forwarded, gateway.config.server.trusted_proxies
    )
    session: SessionView | None = None
    token = read_session_token(request)
    if token is not None:
        session = await console.desk.run(
            Actor("nobody", address), lambda books: find_session(books, token)
        )
    if route.role != "none" and session is None:
        raise not_signed_in()
    if route.role == "operator" and (session is None or not session.account.operator):
        raise not_found()
    body = b"" if request.method in _SAFE else await _read_body(request)
    return Visit(request, gateway, console, session, address, body)


async def _read_body(request: web.Request) -> bytes:
    if not request.body_exists or request.content_length == 0:
        return b""
    if request.content_type != "application/json" or hdrs.CONTENT_ENCODING in request.headers:
        raise ConsoleError(
            415, "unsupported_media_type", "Send JSON, with Content-Type: application/json."
        )
    too_large = ConsoleError(413, "too_large", "The request is larger than 64 KiB.")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise too_large
    except TimeoutError as error:
        raise ConsoleError(
            408, "too_slow", "The request came too slowly. Send it again."
        ) from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise ConsoleError(400, "invalid_json", "The request broke off. Send it again.") from error
    return bytes(body)


async def _refresh(gateway: Gateway) -> None:
    """What was changed is in force when the reply arrives; a ledger in trouble sees it later."""
    try:
        async with asyncio.timeout(REFRESH_SECONDS):
            await gateway.ledger.refresh()
    except TimeoutError:
        log.warning("a change made in the console is in force with the next commit")


def _render(answer: Answer, gateway: Gateway) -> web.Response:
    if answer.body is None:
        response = web.Response(status=204)
    else:
        body = answer.body if isinstance(answer.body, bytes) else orjson.dumps(answer.body)
        response = web.Response(body=body, status=answer.status, content_type="application/json")
    response.headers.update(API_HEADERS)
    response.headers.update(answer.headers)
    if answer.session_token is not None or answer.ends_session:
        write_session_cookie(response, answer.session_token, gateway.config.server)
    return response


def _translate(status: int, error: Refused) -> ConsoleError:
    return ConsoleError(status, error.code, phrase(str(error)), error.field)


def _render_error(request: web.Request, error: ConsoleError) -> web.Response:
    call = request[CALL]
    call.error_code = error.code
    response = web.Response(
        body=orjson.dumps(error.describe(call.request_id)),
        status=error.status,
        content_type="application/json",
        headers=API_HEADERS,
    )
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    if error.status in {408, 413}:
        response.force_close()  # the rest of the body is not worth reading
    return response
