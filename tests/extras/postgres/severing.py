"""A line to PostgreSQL that breaks where a test says so: before a call, during it, or before its answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import Final

from gateway.base.turns import spawn

CALLS: Final = (b"run_round(", b"withdraw_charge(", b"renew_epoch(")
"""Calls of a node that change something; a message that has one of them may be cut."""
READY: Final = b"Z\0\0\0\5I"
"""The server's last words about a statement: it is committed."""
READ_BYTES: Final = 2**16


class Cut(Enum):
    """When the line breaks."""

    BEFORE = "the server never gets the call"
    DURING = "the server gets it, and the line breaks at once"
    AFTER = "the server has committed it, and its answer is lost"


class Line:
    """A proxy between a node and the server; every connection passes through it."""

    def __init__(self, port: int) -> None:
        self.choose: Callable[[bytes], Cut | None] = lambda _: None
        """Asked for each call, with its message."""
        self.cuts: Counter[Cut] = Counter()
        self._port = port
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on until it ends or is cut."""
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
        passing = _Passing(self, (reader, writer), (server_reader, server_writer))
        tasks = [spawn(passing.go_up(), name="up"), spawn(passing.go_down(), name="down")]
        self._tasks.update(tasks)
        try:
            await asyncio.wait(tasks)
        finally:
            self._tasks.difference_update(tasks)
            for one in (writer, server_writer):
                one.transport.abort()

    async def close(self) -> None:
        """Break what is left."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Passing:
    """One connection's two directions."""

    def __init__(
        self,
        line: Line,
        node: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        server: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self._line = line
        self._from_node, self._to_node = node
        self._from_server, self._to_server = server
        self._cut: Cut | None = None

    async def go_up(self) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await self._read_message():
                if any(call in data for call in CALLS):
                    self._cut = self._line.choose(data)
                if self._cut is not None:
                    self._line.cuts[self._cut] += 1
                    self._break(self._cut, data)
                    return
                self._to_server.write(data)
        self._to_server.transport.abort()

    async def go_down(self) -> None:
        answer = b""
        with contextlib.suppress(ConnectionError):
            while data := await self._from_server.read(READ_BYTES):
                if self._cut is None:
                    self._to_node.write(data)
                    continue
                answer += data
                if answer.endswith(READY):
                    break
        self._to_node.transport.abort()
        self._to_server.transport.abort()

    def _break(self, cut: Cut, data: bytes) -> None:
        if cut is Cut.BEFORE:
            self._to_server.transport.abort()
            return
        if cut is not Cut.AFTER:
            self._to_node.transport.abort()
        self._to_server.write(data)

    async def _read_message(self) -> bytes:
        """Read what came, and the rest of a query that is not whole."""
        data = await self._from_node.read(READ_BYTES)
        if data[:1] == b"Q":
            while len(data) < 1 + int.from_bytes(data[1:5], "big"):
                more = await self._from_node.read(READ_BYTES)
                if not more:
                    return b""
                data += more
        return data


@contextlib.asynccontextmanager
async def run_line(port: int) -> AsyncIterator[tuple[Line, int]]:
    """Run a line to a port; give it and its own port."""
    line = Line(port)
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    try:
        yield line, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await line.close()
        await server.wait_closed()
