"""A provider that follows a script, byte by byte, on raw sockets.

It runs in the test's event loop, so scripts wait for plain events instead of sleeping. The
listening socket belongs to the session, as the gateway's configuration names its port: every test
serves a duplicate of it, and connections between two tests wait in the kernel's queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

BACKLOG: Final = 1024
RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER on, for 0 seconds: closing sends a reset."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A step that waits until the test lets it go on."""

    event: asyncio.Event


@dataclass(frozen=True, slots=True)
class Drip:
    """A step that sends one piece per interval, for faults that consist in time."""

    pieces: Sequence[bytes]
    interval_seconds: float
    forever: bool = False


class End(Enum):
    """How a connection ends; it is kept alive if the script has no such step."""

    FIN = "closed"
    RST = "reset"
    HANG = "silent until the gateway closes it"


Step = bytes | Wait | Drip | End
Script = Sequence[Step]
Handler = Callable[["Exchange"], Script]


@dataclass(slots=True, eq=False)
class Exchange:
    """A request as it arrived, and what became of its connection."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int
    """The connection's number within this test, counted from 1."""
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the gateway closed the connection, before or after the script's end."""
    played: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the script was played to its end."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class ScriptedUpstream:
    """Plays one script per request and records everything."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.connections = 0
        self.in_flight = 0
        self.peak = 0
        """The most requests that were in flight at once."""
        self.not_http: list[bytes] = []
        """Bytes that are not an HTTP request, such as a TLS hello."""
        self.failures: list[BaseException] = []
        self._queue: deque[Script] = deque()
        self._always: Handler | None = None
        self._arrived = asyncio.Condition()
        self._open: set[_Connection] = set()

    def play(self, *scripts: Script) -> None:
        """Set scripts for the next requests, in order."""
        self._queue.extend(scripts)

    def always(self, handler: Handler | Script) -> None:
        """Set the script for all requests that have none queued."""
        if callable(handler):
            self._always = handler
        else:
            script = handler
            self._always = lambda _: script

    @property
    def last(self) -> Exchange:
        return self.exchanges[-1]

    async def wait_for(self, count: int, *, seconds: float = 30.0) -> Exchange:
        """Wait for the exchange of that number, counted from 1."""
        async with asyncio.timeout(seconds), self._arrived:
            await self._arrived.wait_for(lambda: len(self.exchanges) >= count)
        return self.exchanges[count - 1]

    def choose(self, exchange: Exchange) -> Script:
        if self._queue:
            return self._queue.popleft()
        if self._always is None:
            raise AssertionError(f"no script for {exchange.method} {exchange.target}")
        return self._always(exchange)

    async def admit(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        async with self._arrived:
            self._arrived.notify_all()

    def connect(self) -> asyncio.Protocol:
        self.connections += 1
        connection = _Connection(self, self.connections)
        self._open.add(connection)
        return connection

    def forget(self, connection: _Connection) -> None:
        self._open.discard(connection)

    async def close(self) -> None:
        """Close all connections and end their tasks, so that nothing outlives the test."""
        connections = list(self._open)
        for connection in connections:
            connection.abort()
        await asyncio.gather(*(one.gone.wait() for one in connections))


class _Connection(asyncio.Protocol):
    def __init__(self, upstream: ScriptedUpstream, number: int) -> None:
        self.gone = asyncio.Event()
        self._upstream = upstream
        self._number = number
        self._buffer = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._exchange: Exchange | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        # asyncio sets TCP_NODELAY only on sockets that name their protocol; this one does not.
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._take_request()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        if self._exchange is not None:
            self._exchange.closed.set()
        if self._task is not None:
            self._task.cancel()
        self._upstream.forget(self)
        self.gone.set()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _take_request(self) -> None:
        if self._task is not None or not self._buffer:
            return
        if not self._buffer[:1].isalpha():
            self._upstream.not_http.append(bytes(self._buffer))
            self._live.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            self._live.close()
            return
        exchange = _parse_request(self._buffer, self._number)
        if exchange is None:
            return
        self._exchange = exchange
        self._task = asyncio.get_running_loop().create_task(self._play(exchange))
        self._task.add_done_callback(self._finish)

    @property
    def _live(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    async def _play(self, exchange: Exchange) -> None:
        await self._upstream.admit(exchange)
        try:
            for step in self._upstream.choose(exchange):
                await self._do(step)
            exchange.played.set()
        finally:
            self._upstream.in_flight -= 1

    async def _do(self, step: Step) -> None:
        match step:
            case bytes():
                await self._send(step)
            case Wait(event):
                await event.wait()
            case Drip(pieces, interval_seconds, forever):
                while True:
                    for piece in pieces:
                        await self._send(piece)
                        await asyncio.sleep(interval_seconds)
                    if not forever:
                        return
            case End.FIN:
                self._live.close()
            case End.RST:
                raw = self._live.get_extra_info("socket")
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                self._live.abort()
            case End.HANG:
                await self.gone.wait()

    async def _send(self, data: bytes) -> None:
        await self._writable.wait()
        self._live.write(data)
        # Let the reader run, so that pieces arrive separately as far as the kernel allows.
        await asyncio.sleep(0)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            self._upstream.failures.append(error)
            self.abort()
            return
        if self._transport is not None and not self._transport.is_closing():
            self._take_request()


def _parse_request(buffer: bytearray, number: int) -> Exchange | None:
    """Take one whole request off the buffer; return None if it is incomplete."""
    head, separator, rest = bytes(buffer).partition(b"\r\n\r\n")
    if not separator:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if headers.get("transfer-encoding", "").lower() == "chunked":
        taken = _parse_chunked(rest)
    else:
        length = int(headers.get("content-length", "0"))
        taken = (rest[:length], rest[length:]) if len(rest) >= length else None
    if taken is None:
        return None
    body, left = taken
    buffer[:] = left
    return Exchange(method, target, headers, body, number)


def _parse_chunked(data: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while True:
        size_line, separator, data = data.partition(b"\r\n")
        if not separator:
            return None
        size = int(size_line.split(b";")[0], 16)
        if len(data) < size + 2:
            return None
        body, data = body + data[:size], data[size + 2 :]
        if size == 0:
            return body, data


def listen() -> socket.socket:
    """Open a listening socket on a free loopback port, for the whole session."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    listener.setblocking(False)
    return listener


def port_of(listener: socket.socket) -> int:
    port: int = listener.getsockname()[1]
    return port


@contextlib.asynccontextmanager
async def serve_scripts(listener: socket.socket) -> AsyncIterator[ScriptedUpstream]:
    """Play scripts on the listener during one test."""
    upstream = ScriptedUpstream()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(upstream.connect, sock=listener.dup(), backlog=BACKLOG)
    try:
        yield upstream
    finally:
        server.close()
        await upstream.close()
        await server.wait_closed()
    assert not upstream.failures, upstream.failures
