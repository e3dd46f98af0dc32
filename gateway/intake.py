"""Reading a request's body: what it may be, how large, and how long it may take."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import hdrs, web

from gateway.config import Server
from gateway.errors import BadRequest, BodyTimeout, BodyTooLarge, UnsupportedMediaType

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


async def defer_continue(request: web.Request) -> None:
    """aiohttp's `Expect` hook: say nothing yet. `read_body` says 100 once the key is known."""


async def read_body(request: web.Request, server: Server) -> bytes:
    """The whole body. Raises UnsupportedMediaType, BodyTooLarge, BodyTimeout or BadRequest."""
    _check_type(request)
    most = server.max_body_bytes
    if (request.content_length or 0) > most:
        raise _too_large(server)
    content = request.content
    if content.is_eof():  # it came with the head: the common case
        body = content.read_nowait(-1)
        if len(body) > most:
            raise _too_large(server)
        return body
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(_CONTINUE)
    return await _read_slowly(request, server)


async def _read_slowly(request: web.Request, server: Server) -> bytes:
    now = asyncio.get_running_loop().time
    total_at = now() + server.body_total_seconds
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout_at(None) as deadline:
            while True:
                deadline.reschedule(min(now() + server.body_idle_seconds, total_at))
                data = await request.content.readany()
                if not data:
                    return b"".join(pieces)
                size += len(data)
                if size > server.max_body_bytes:
                    raise _too_large(server)
                pieces.append(data)
    except TimeoutError as error:
        raise BodyTimeout("The request body did not arrive in time.") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise BadRequest("The request body broke off.") from error


def _check_type(request: web.Request) -> None:
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise UnsupportedMediaType(
            "Content-Encoding is not supported here; send the body as it is."
        )
    kind = request.headers.get(hdrs.CONTENT_TYPE, "").partition(";")[0].strip().lower()
    if kind != "application/json" and not kind.endswith("+json"):
        raise UnsupportedMediaType("Send the body with 'Content-Type: application/json'.")


def _too_large(server: Server) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is larger than {server.max_body_mb} MiB.")
