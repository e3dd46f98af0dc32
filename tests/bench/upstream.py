"""A provider of very low cost: ready-made replies over a bare asyncio protocol.

With one event per tick, a proxy that keeps up gets the events one by one, however fast it is. With
one per turn of the loop the provider outruns it, and a slower proxy gets more events at once, which
makes each event cheaper: there compare the rates, not the cost of an event.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, assert_never

from tests.bench import wire

BACKLOG: Final = 1024
"""Connections that may wait to be accepted."""


@dataclass(slots=True)
class Answers:
    """The replies, and the streams that get an event at the next tick."""

    events: int
    tick_seconds: float
    json: bytes = field(default_factory=wire.make_json_reply)
    streams: dict[bool, list[bytes]] = field(init=False)
    bursts: dict[bool, bytes] = field(init=False)
    _paced: dict[asyncio.Transport, Iterator[bytes]] = field(default_factory=dict)
    _ticking: bool = False

    def __post_init__(self) -> None:
        self.streams = {
            usage: wire.make_stream_writes(self.events, with_usage=usage) for usage in (True, False)
        }
        self.bursts = {usage: b"".join(writes) for usage, writes in self.streams.items()}

    def pace(self, transport: asyncio.Transport, writes: list[bytes]) -> None:
        self._paced[transport] = iter(writes)
        if not self._ticking:
            self._ticking = True
            loop = asyncio.get_running_loop()
            loop.call_at(loop.time() + self.tick_seconds, self._tick, loop.time())

    def _tick(self, last: float) -> None:
        for transport, writes in tuple(self._paced.items()):
            data = next(writes, None)
            if data is None or transport.is_closing():
                del self._paced[transport]
            else:
                transport.write(data)
        self._ticking = bool(self._paced)
        if self._ticking:
            due = last + self.tick_seconds
            asyncio.get_running_loop().call_at(due + self.tick_seconds, self._tick, due)


class Provider(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._transport: asyncio.Transport | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head_end = self._buffer.find(wire.HEAD_END)
        if head_end < 0:
            return
        length = wire.read_content_length(self._buffer[: head_end + 2]) or 0
        end = head_end + len(wire.HEAD_END) + length
        if len(self._buffer) >= end:
            body, self._buffer = self._buffer[head_end:end], self._buffer[end:]
            self._answer(body)

    def _answer(self, body: bytes) -> None:
        answers, transport = self._answers, self._transport
        assert transport is not None
        with_usage = b'"include_usage":true' in body
        match wire.read_mode(body):
            case "json":
                transport.write(answers.json)
            case "burst":
                transport.write(answers.bursts[with_usage])
            case "turns":
                self._write_one(iter(answers.streams[with_usage]))
            case "paced":
                answers.pace(transport, answers.streams[with_usage])
            case unexpected:
                assert_never(unexpected)

    def _write_one(self, writes: Iterator[bytes]) -> None:
        data = next(writes, None)
        if data is not None and self._transport is not None:
            self._transport.write(data)
            asyncio.get_running_loop().call_soon(self._write_one, writes)


async def serve(events: int, tick_seconds: float) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    answers = Answers(events, tick_seconds)
    server = await loop.create_server(lambda: Provider(answers), "127.0.0.1", 0, backlog=BACKLOG)
    print(server.sockets[0].getsockname()[1], flush=True)
    await stopped.wait()
    server.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--tick-ms", type=float, required=True)
    options = parser.parse_args()
    asyncio.run(serve(options.events, options.tick_ms / 1000))
