"""The end of a stream: nothing is written behind it, and it may find the caller gone."""

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


class OpenTransport(asyncio.Transport):
    """Takes whatever is written, at once."""

    written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


class ResetTransport(OpenTransport):
    """Open until the last event is written: so asyncio shows a connection that was reset."""

    def is_closing(self) -> bool:
        return DONE in self.written


async def make_sink(transport: OpenTransport) -> Sink:
    """Of a chunked response whose head was sent."""
    protocol = BaseProtocol(asyncio.get_running_loop())
    protocol.transport = transport
    writer = StreamWriter(protocol, asyncio.get_running_loop())
    writer.enable_chunking()
    request = SimpleNamespace(transport=transport, version=HttpVersion11, writer=writer)
    await writer.write_headers("HTTP/1.1 200 OK", CIMultiDict())
    writer.send_headers()
    return Sink(cast("web.Request", request), {})


async def test_a_stream_ends_without_error_when_its_last_write_finds_the_caller_gone() -> None:
    transport = ResetTransport()
    (await make_sink(transport)).end(DONE)
    assert transport.written.endswith(DONE + b"\r\n")


async def test_nothing_is_written_behind_the_end() -> None:
    """A provider that goes on, an end that is told twice: the connection is the next request's."""
    transport = OpenTransport()
    sink = await make_sink(transport)
    sink.send(b"data: 1\n\n")
    sink.end(DONE)
    whole = transport.written
    assert whole.endswith(DONE + b"\r\n0\r\n\r\n")
    assert sink.send(b"data: 2\n\n")
    sink.end(DONE)
    assert transport.written == whole
