"""Reading a request's body: what it may be, how large, how long it may take, and for how many at once."""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import hdrs, web

from gateway.config import Server
from gateway.errors import (
    BadRequest,
    BodyTimeout,
    BodyTooLarge,
    Overloaded,
    UnsupportedMediaType,
)
from gateway.state import CALL, GATEWAY, Call, Gateway

FRAMING_SECONDS: Final = 1.0
"""How often it is asked whether a body in chunks that does not come can come at all."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


async def defer_continue(request: web.Request) -> None:
    """aiohttp's `Expect` hook: say nothing yet. `read_body` says 100 once the key is known."""


async def read_body(request: web.Request) -> bytes:
    """The whole body.

    Raises UnsupportedMediaType, BodyTooLarge, Overloaded, BodyTimeout or BadRequest.
    """
    gateway, call = request.app[GATEWAY], request[CALL]
    server = gateway.config.server
    _check_type(request)
    declared = request.content_length or 0
    if declared > server.max_body_bytes:
        raise _too_large(server)
    hold_body(gateway, call, declared)
    content = request.content
    if content.is_eof():  # it came with the head: the common case
        body = content.read_nowait(-1)
        if len(body) > server.max_body_bytes:
            raise _too_large(server)
        return body
    return await _read_slowly(request, gateway, call)


def hold_body(gateway: Gateway, call: Call, size: int) -> None:
    """Make room for a body until its request ends. Raises Overloaded when there is none."""
    if gateway.body_bytes + size > gateway.config.server.max_bodies_mb << 20:
        raise Overloaded("The gateway holds as many request bodies as it may. Try again shortly.")
    gateway.body_bytes += size
    call.body_bytes += size


async def _read_slowly(request: web.Request, gateway: Gateway, call: Call) -> bytes:
    server = gateway.config.server
    now = asyncio.get_running_loop().time
    total_at = now() + server.body_total_seconds
    pieces: list[bytes] = []
    size = 0
    try:
        if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
            await request.writer.write(_CONTINUE)
        async with asyncio.timeout_at(None) as deadline:
            while True:
                deadline.reschedule(min(now() + server.body_idle_seconds, total_at))
                data = await _read_piece(request)
                if not data:
                    return b"".join(pieces)
                size += len(data)
                if size > server.max_body_bytes:
                    raise _too_large(server)
                if size > call.body_bytes:
                    hold_body(gateway, call, size - call.body_bytes)
                pieces.append(data)
    except TimeoutError as error:
        raise BodyTimeout("The request body did not arrive in time.") from error
    except (web.RequestPayloadError, ConnectionError) as error:
        raise BadRequest("The request body broke off.") from error


async def _read_piece(request: web.Request) -> bytes:
    """The next bytes, b"" at the end. Raises BadRequest when the chunks are framed wrongly.

    aiohttp's parser stops there and tells the body nothing of it: the error waits in line as the
    connection's next request, and no other can while a body is not whole.
    """
    if request.content_length is not None:
        return await request.content.readany()
    while True:
        try:
            async with asyncio.timeout(FRAMING_SECONDS):
                return await request.content.readany()
        except TimeoutError:
            if request.protocol._messages:  # noqa: SLF001 - there is no public word for it
                raise BadRequest("The request body is not framed as HTTP has it.") from None


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
