"""A JSON reply: head and body leave in one write; it counts as in flight until they are sent."""

from __future__ import annotations

from typing import Final

from aiohttp import HttpVersion10, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.web_request import BaseRequest

from gateway.api.memory import SMALL_BYTES, hold_reply, release
from gateway.api.sink import drain
from gateway.api.state import Call

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
        """Send it all, and wait for the caller if it reads slowly. Raises ConnectionError."""
        call, transport = self._call, request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        if self._keep_alive is None:
            self._keep_alive = request.keep_alive and not call.gateway.draining
        head, size = self._write_head(request), len(self._json)
        if size > SMALL_BYTES:
            transport.write(head)
            transport.write(self._json)
        else:
            transport.write(head + self._json)
        self._json = b""  # aiohttp keeps a reply until the connection's next request
        if transport.get_write_buffer_size() > SMALL_BYTES:
            hold_reply(call, size)
            try:
                await drain(request)
            finally:
                release(call)

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: the body has its length."""

    def _write_head(self, request: BaseRequest) -> bytes:
        is_old = request.version == HttpVersion10
        headers = {
            **self.headers,
            "Content-Type": "application/json",
            "Content-Length": len(self._json),
            "Date": rfc822_formatted_time(),
            "Server": SERVER,
        }
        if is_old and self._keep_alive:
            headers["Connection"] = "keep-alive"
        elif not is_old and not self._keep_alive:
            headers["Connection"] = "close"
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        version = "1.0" if is_old else "1.1"
        return f"HTTP/{version} 200 OK\r\n{''.join(lines)}\r\n".encode("ascii")
