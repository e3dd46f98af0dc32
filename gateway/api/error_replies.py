"""Errors as responses, in the dialect of the caller."""

from __future__ import annotations

from aiohttp import web

from gateway.api.state import Call
from gateway.errors import (
    BodyTooLarge,
    GatewayError,
    InternalError,
    MethodNotAllowed,
    NotFound,
)


def render_error(call: Call, error: GatewayError) -> web.Response:
    """Render an error reply; the call notes its code for the log line."""
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


def translate_http_error(error: web.HTTPException) -> GatewayError:
    """Translate a refusal of aiohttp's own."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allow = ", ".join(sorted(error.allowed_methods))
        return MethodNotAllowed(f"Not allowed to {error.method} here; use {allow}.", allow=allow)
    if isinstance(error, web.HTTPNotFound):
        return NotFound(
            "Unknown URL. This gateway serves POST /v1/chat/completions, POST /v1/messages and "
            "GET /v1/models; paths have no trailing slash. An OpenAI SDK's base address ends "
            "in /v1, an Anthropic SDK's does not."
        )
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return BodyTooLarge("The request body is too large.")
    return InternalError()
