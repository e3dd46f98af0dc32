"""The last write to a caller who is found gone by it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

from aiohttp import HttpVersion11, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_writer import StreamWriter
from multidict import CIMultiDict

from gateway.sink import Sink

DONE = b"data: [DONE]\n\n"


class ResetTransport(asyncio.Transport):
    """Open until the last event is written: so asyncio shows a connection that was reset."""

    written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return DONE in self.written

    def get_write_buffer_size(self) -> int:
        return 0


async def test_a_stream_ends_without_error_when_its_last_write_finds_the_caller_gone() -> None:
    transport = ResetTransport()
    protocol = BaseProtocol(asyncio.get_running_loop())
    protocol.transport = transport
    writer = StreamWriter(protocol, asyncio.get_running_loop())
    writer.enable_chunking()
    request = SimpleNamespace(transport=transport, version=HttpVersion11, writer=writer)
    await writer.write_headers("HTTP/1.1 200 OK", CIMultiDict())
    writer.send_headers()
    Sink(cast("web.Request", request), {}).end(DONE)
    assert transport.written.endswith(DONE + b"\r\n")
