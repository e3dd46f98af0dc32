"""A whole JSON reply, sent at once."""

from __future__ import annotations

import asyncio
from itertools import starmap
from typing import Final

from aiohttp import HttpVersion10, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.web_request import BaseRequest

from gateway.api.call import Call
from gateway.api.shares import SMALL_BYTES, count_bytes, count_reply
from gateway.api.sink import drain

PIECE_BYTES: Final = 1 << 18
"""Bytes of a large reply written in one turn of the loop."""
SERVER: Final = "gateway"
"""The `Server` header: no version, which would tell attackers what to try."""


class JsonReply(web.StreamResponse):
    """A 200 with a JSON body.

    aiohttp's own response takes three times the calls, and forgets a reply as soon as it is in the
    transport's buffer, which has no bound.
    """

    def __init__(self, call: Call, body: bytes, headers: dict[str, str]) -> None:
        super().__init__(headers=headers)
        self._call = call
        self._json = body

    async def prepare(self, request: BaseRequest) -> None:
        """Send the whole reply; wait if the caller reads slowly. Raises ConnectionError."""
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive
        version, connection = "1.1", ""
        # HTTP/1.0 closes unless told to keep, HTTP/1.1 keeps unless told to close (RFC 9112 §9.3).
        if request.version == HttpVersion10:
            version = "1.0"
            connection = "Connection: keep-alive\r\n" if self._keep_alive else ""
        elif not self._keep_alive:
            connection = "Connection: close\r\n"
        body, self._json = (
            self._json,
            b"",
        )  # aiohttp keeps a reply until the connection's next request
        own = "".join(starmap("{}: {}\r\n".format, self._headers.items()))
        head = (
            f"HTTP/{version} 200 OK\r\n{own}Content-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nDate: {rfc822_formatted_time()}\r\n"
            f"Server: {SERVER}\r\n{connection}\r\n"
        ).encode("ascii")
        first = body if len(body) <= SMALL_BYTES else b""
        transport.write(head + first)
        # More than one small reply is unread if the caller goes on sending requests without reading.
        if not first or transport.get_write_buffer_size() > SMALL_BYTES:
            await self._send_rest(request, transport, body, len(first))

    async def _send_rest(
        self, request: BaseRequest, transport: asyncio.Transport, body: bytes, sent: int
    ) -> None:
        """Send what is left of a large reply, as the caller reads; it counts in memory meanwhile."""
        call = self._call
        count_reply(call, max(len(body), transport.get_write_buffer_size()))
        try:
            await drain(request)
            # Written in pieces: asyncio copies what the kernel does not take at once.
            for start in range(sent, len(body), PIECE_BYTES):
                if transport.is_closing():  # uvloop fails on a write to a closed transport
                    raise ConnectionResetError
                transport.write(body[start : start + PIECE_BYTES])
                await drain(request)
        finally:
            count_bytes(call, -call.buffered_bytes)

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: the head states the body's length."""
