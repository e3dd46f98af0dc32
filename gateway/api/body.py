"""The body of a request: its type, its size, its deadlines."""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import Final

from aiohttp import hdrs, web

from gateway.api.large_bodies import LOOP_BYTES, Place
from gateway.api.memory import PARSED_FACTOR, hold_body
from gateway.api.reading import has_tiny_chunks, want_body
from gateway.api.state import Call
from gateway.errors import (
    BadRequest,
    BodyTimeout,
    BodyTooLarge,
    UnsupportedMediaType,
)

FRAMING_SECONDS: Final = 1.0
"""How often a chunked body that does not arrive is checked for malformed chunks."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


async def defer_continue(http: web.Request) -> None:
    """Send no `100 Continue` yet (aiohttp's hook): `read_body` does once the key is known."""


async def read_body(http: web.Request, call: Call, max_bytes: int = sys.maxsize) -> bytes:
    """Read the whole body, of at most `max_body_mb` and `max_bytes`.

    Raises UnsupportedMediaType, BodyTooLarge, Overloaded, RateLimited, BodyTimeout or BadRequest.
    """
    most = min(call.gateway.config.server.max_body_bytes, max_bytes)
    _check_type(http.headers)
    content = http.content
    if content.is_eof():  # it came with the head, as most bodies do
        body = content.read_nowait(-1)
        if len(body) > most:
            raise _too_large(most)
        hold_body(call, len(body))
    else:
        began = time.monotonic()
        body = await _read_slowly(http, call, most)
        call.waited_seconds += time.monotonic() - began
    if len(body) > LOOP_BYTES:
        hold_body(call, PARSED_FACTOR * len(body))
    return body


async def _read_slowly(http: web.Request, call: Call, most: int) -> bytes:
    if (http.content_length or 0) > most:
        raise _too_large(most)
    server = call.gateway.config.server
    now = asyncio.get_running_loop().time
    total_at = now() + server.body_total_seconds
    pieces: list[bytes] = []
    size = 0
    want_body(http)
    try:
        if http.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
            await http.writer.write(_CONTINUE)
        async with asyncio.timeout_at(None) as deadline:
            while True:
                deadline.reschedule(min(now() + server.body_idle_seconds, total_at))
                data = await _read_piece(http)
                if not data:
                    break
                size += len(data)
                if size > most:
                    raise _too_large(most)
                hold_body(call, len(data))
                pieces.append(data)
                check_chunks(http)
    except TimeoutError as error:
        raise BodyTimeout("The request body did not arrive in time.") from error
    # aiohttp raises RuntimeError where the connection was lost before the read.
    except (web.RequestPayloadError, ConnectionError, RuntimeError) as error:
        raise BadRequest("The request body broke off.") from error
    place = Place.THREAD if size > LOOP_BYTES else Place.NOW  # it lets others run meanwhile
    return await call.run_at(place, partial(b"".join, pieces))


async def _read_piece(http: web.Request) -> bytes:
    """Read the next bytes, b"" at the end. Raises BadRequest for malformed chunks.

    At malformed chunks aiohttp's parser stops without telling the body: the error is queued as the
    connection's next request. No other request can be queued while a body is not whole.
    """
    if http.content_length is not None:
        return await http.content.readany()
    while True:
        try:
            async with asyncio.timeout(FRAMING_SECONDS):
                return await http.content.readany()
        except TimeoutError:
            if http.protocol._messages:  # noqa: SLF001 - there is no public word for it
                raise BadRequest("The chunked encoding of the request body is malformed.") from None


def check_chunks(http: web.Request) -> None:
    """Raise BadRequest for a body in tiny chunks, of which each takes as long as a large one."""
    if has_tiny_chunks(http):
        raise BadRequest("The request body comes in too many tiny chunks; send larger ones.")


def _check_type(headers: Mapping[str, str]) -> None:
    if _read_token(headers.get(hdrs.CONTENT_ENCODING, "")) not in {"", "identity"}:
        raise UnsupportedMediaType(
            "Content-Encoding is not supported here; send the body as it is."
        )
    kind = _read_token(headers.get(hdrs.CONTENT_TYPE, ""))
    if kind != "application/json" and not kind.endswith("+json"):
        raise UnsupportedMediaType("Send the body with 'Content-Type: application/json'.")


@functools.lru_cache(maxsize=64)
def _read_token(header: str) -> str:
    """Return a header's value in lower case, without its parameters."""
    return header.partition(";")[0].strip().lower()


def _too_large(most: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is larger than {most >> 20} MiB.")
