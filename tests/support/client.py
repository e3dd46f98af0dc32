"""A client of raw bytes, which shows cut replies, header order and 100 Continue."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

DEADLINE_SECONDS: Final = 30.0
"""The deadline of every read, so that no test hangs."""
LINE_BYTES: Final = 2**16


class Cut(Exception):
    """The connection ended before the message did."""


@dataclass(slots=True)
class Reply:
    """A reply. `complete` is False if the body was cut off."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    complete: bool = True
    pieces: list[bytes] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def request_id(self) -> str:
        return self.headers["x-request-id"]


class Call:
    """One connection to the gateway."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, forbidden: Sequence[bytes]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._forbidden = forbidden
        self._left: int | None = 0
        self._chunked = False
        self.status = 0
        self.headers: dict[str, str] = {}

    @classmethod
    async def open(cls, port: int, *, forbidden: Sequence[bytes] = ()) -> Self:
        """Connect. A reply that contains one of the `forbidden` byte strings fails the test."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
        return cls(reader, writer, forbidden)

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def read_head(self) -> None:
        """Read status and headers of the next message, interim ones included."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            try:
                raw = await self._reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise Cut("no reply") from error
        self._check(raw)
        first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.lower()] = value.strip()
        self._chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        length = self.headers.get("content-length")
        self._left = int(length) if length is not None else None
        if self.status in {204, 304} or self.status < 200:
            self._left, self._chunked = 0, False

    async def read_piece(self) -> bytes:
        """Read the next bytes of the body; b"" at its end.

        Raises:
            Cut: the connection ended or was reset before the message's end.
        """
        async with asyncio.timeout(DEADLINE_SECONDS):
            try:
                piece = await (self._read_chunk() if self._chunked else self._read_plain())
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise Cut("cut") from error
        return piece

    async def read_until(self, mark: bytes) -> bytes:
        """Read on until these bytes have come, with the head if that was not read yet."""
        if self.status < 200:
            await self.read_head()
        read = b""
        while mark not in read:
            read += await self.read_piece()
        return read

    async def _read_chunk(self) -> bytes:
        size = int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16)
        data = await self._reader.readexactly(size + 2)
        return data[:-2]

    async def _read_plain(self) -> bytes:
        if self._left is None:
            return await self._reader.read(LINE_BYTES)
        if self._left == 0:
            return b""
        data = await self._reader.read(min(self._left, LINE_BYTES))
        if not data:
            raise Cut("short body")
        self._left -= len(data)
        return data

    async def read_all(self) -> Reply:
        """Read the rest of the reply, with its head if that was not read yet."""
        if self.status < 200:
            await self.read_head()
        reply = Reply(self.status, self.headers)
        try:
            while piece := await self.read_piece():
                reply.pieces.append(piece)
        except Cut:
            reply.complete = False
        reply.body = b"".join(reply.pieces)
        self._check(reply.body)
        return reply

    async def read_to_close(self) -> bytes:
        """Read everything until the gateway closes the connection."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            try:
                data = await self._reader.read(-1)
            except ConnectionError:
                data = b""
        self._check(data)
        return data

    def half_close(self) -> None:
        self._writer.write_eof()

    def reset(self) -> None:
        """Close the connection with a reset."""
        raw = self._writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()

    def _check(self, data: bytes) -> None:
        found = [canary[:10] for canary in self._forbidden if canary in data]
        assert not found, f"the gateway told a caller a secret: {found}"


@contextlib.asynccontextmanager
async def connect(port: int, *, forbidden: Sequence[bytes] = ()) -> AsyncIterator[Call]:
    call = await Call.open(port, forbidden=forbidden)
    try:
        yield call
    finally:
        await call.close()


def send_before_reading(port: int, *pieces: bytes) -> bytes:
    """Send all of a request before reading, as many clients do; b"" if the connection ends before."""
    with socket.create_connection(("127.0.0.1", port), DEADLINE_SECONDS) as one:
        try:
            for piece in pieces:
                one.sendall(piece)
            return one.recv(LINE_BYTES)
        except ConnectionError:
            return b""


def request(
    method: str,
    target: str,
    headers: Sequence[tuple[str, str]] | Mapping[str, str] = (),
    body: bytes | None = None,
) -> bytes:
    """Write one request as bytes; a body gets a Content-Length unless the headers frame it."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    names = {name.lower() for name, _ in pairs}
    if "host" not in names:
        pairs.insert(0, ("Host", "gateway.test"))
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        pairs.append(("Content-Length", str(len(body))))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")
