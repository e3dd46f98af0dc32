"""Errors as responses, in the dialect of the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import NoReturn

from aiohttp import web

from gateway.api.observations import find_code
from gateway.api.other_paths import explain_path
from gateway.api.state import Call
from gateway.errors import BodyTooLarge, GatewayError, MethodNotAllowed, NotFound


def render_error(call: Call, error: GatewayError) -> web.Response:
    """Render an error reply; the call notes its code for the log line."""
    call.error_code = find_code(error)
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


def refuse_path(served: Collection[str]) -> Callable[[web.Request, Call], Awaitable[NoReturn]]:
    """Make the handler of the paths that nobody has. `served` are the others."""

    async def refuse(http: web.Request, call: Call) -> NoReturn:  # noqa: ARG001 - a handler
        raise NotFound(explain_path(http.path, served))

    return refuse


def refuse_method(allow: str) -> Callable[[web.Request, Call], Awaitable[NoReturn]]:
    """Make the handler of the methods that a path does not have."""

    async def refuse(http: web.Request, call: Call) -> NoReturn:  # noqa: ARG001 - a handler
        raise MethodNotAllowed(f"Not allowed to {http.method} here; use {allow}.", allow=allow)

    return refuse
