"""Read the JSON body of a request within limits of size and time, and write replies as JSON."""

from __future__ import annotations

from typing import Final

import orjson
from aiohttp import hdrs, web

from gateway.api.bodies import has_tiny_chunks, resume_body
from gateway.api.front import Call
from gateway.api.state import Gateway
from gateway.base.deadlines import limit_seconds
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.extras.console import callers
from gateway.extras.console.errors import ConsoleError
from gateway.extras.console.routes import Answer
from gateway.extras.signins import browsers

MAX_BODY_BYTES: Final = 64 * 1024
"""Bytes of a request body: a hundred model names for a key take 20 KB, the most that is sent."""
BODY_SECONDS: Final = 10.0
"""Time for a request body. It fits into a few packets, so a slower one is a stalled connection."""


async def read_body(http: web.Request) -> bytes:
    if not http.body_exists or http.content_length == 0:
        return b""
    # A form of another site cannot send this type. A few compressed bytes might be gigabytes.
    kind = http.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
    if kind != "application/json" or hdrs.CONTENT_ENCODING in http.headers:
        raise ConsoleError(
            415, "unsupported_media_type", "Send JSON with Content-Type: application/json."
        )
    return await read_bytes(http, MAX_BODY_BYTES)


async def read_bytes(http: web.Request, most: int) -> bytes:
    """Read a whole body of at most `most` bytes. Raises ConsoleError."""
    if (http.content_length or 0) > most:  # before any of it is read
        raise _too_large(most)
    body = bytearray()
    resume_body(http)
    try:
        async with limit_seconds(BODY_SECONDS):
            async for chunk in http.content.iter_any():
                body += chunk
                if has_tiny_chunks(http):
                    raise ConsoleError(400, "invalid_json", "The request comes in tiny chunks.")
                if len(body) > most:
                    raise _too_large(most)
    except TimeoutError as error:
        raise ConsoleError(
            408, "too_slow", "The request came too slowly. Send it again."
        ) from error
    # aiohttp raises RuntimeError where the connection was lost before the read.
    except (web.RequestPayloadError, ConnectionError, RuntimeError) as error:
        raise ConsoleError(400, "invalid_json", "The request broke off. Send it again.") from error
    return bytes(body)


def _too_large(most: int) -> ConsoleError:
    return ConsoleError(413, "too_large", f"The request is larger than {most // 1024} KiB.")


def render(answer: Answer, gateway: Gateway) -> web.Response:
    if answer.body is None:
        response = web.Response(status=204)
    else:
        body = answer.body if isinstance(answer.body, bytes) else dumps_lenient(answer.body)
        response = web.Response(body=body, status=answer.status, content_type="application/json")
    response.headers.update(callers.API_HEADERS)
    response.headers.update(answer.headers)
    for cookie in answer.cookies:
        browsers.write_cookie(response, cookie, gateway.config.server)
    return response


def render_error(call: Call, error: ConsoleError) -> web.Response:
    call.error_code = error.code
    response = web.Response(
        body=orjson.dumps(error.describe(call.request_id)),
        status=error.status,
        content_type="application/json",
        headers=callers.API_HEADERS,
    )
    response.headers.update(error.headers)
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    if error.status in {408, 413}:
        response.force_close()  # else the rest of the refused body would have to be read
    return response
