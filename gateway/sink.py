"""The caller's side of a stream: HTTP framing by hand on the caller's transport.

aiohttp writes the head and, at the clean end, the last chunk. In between bytes go to the
transport without a coroutine per event; a stream that must not end cleanly is aborted before the
last chunk, which every SDK takes for the error it is (wire.md §0.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiohttp import HttpVersion11, web
from aiohttp.http_writer import StreamWriter

HIGH_WATER_BYTES: Final = 64 << 10
"""asyncio's own default: above it the transport asks to wait, below it `drain` returns at once."""

STREAM_HEADERS: Final = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


class Sink:
    """Where a stream's events go. Opened once, ended or aborted once."""

    __slots__ = ("_chunked", "_ended", "_headers", "_request", "_transport", "opened", "response")

    def __init__(self, request: web.Request, headers: Mapping[str, str]) -> None:
        self._request = request
        self._headers = headers
        self._chunked = request.version >= HttpVersion11
        self._transport = request.transport
        self.response = web.StreamResponse()
        self.opened = False
        self._ended = False

    @property
    def closed(self) -> bool:
        """Whether the caller is gone."""
        return self._transport is None or self._transport.is_closing()

    async def open(self) -> None:
        """Send the 200 and its headers, once. Raises ConnectionError when the caller is gone."""
        if self.opened:
            return
        self.opened = True
        response = self.response
        response.headers.update(STREAM_HEADERS)
        response.headers.update(self._headers)
        if self._chunked:
            response.enable_chunked_encoding()
        else:
            response.force_close()
        writer = await response.prepare(self._request)
        if writer is not None:
            writer.send_headers()

    def send(self, data: bytes) -> bool:
        """Write bytes; False when the caller should be waited for with `ready`."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._ended:
            return True  # nobody reads; the watch will notice
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)
        return transport.get_write_buffer_size() < HIGH_WATER_BYTES

    async def ready(self) -> None:
        """Return when the caller has taken what was written. Raises ConnectionError if it left."""
        await self._request.writer.drain()

    def end(self, data: bytes) -> None:
        """Write the last bytes and end the response cleanly, without waiting for the caller."""
        if not self.closed:
            self.send(data)
            self._ended = True
            writer = self._request.writer
            assert isinstance(writer, StreamWriter)
            if not self.closed:  # the write itself may find the caller gone
                writer.set_eof()

    def abort(self) -> None:
        """End the connection in the middle: never a clean end of a cut stream."""
        if self._transport is not None:
            self._transport.abort()
