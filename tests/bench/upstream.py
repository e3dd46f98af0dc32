"""A provider of very low cost: ready-made replies over a bare asyncio protocol.

Paced streams get one event per tick, each stream at its own millisecond of it, so that a proxy that
keeps up gets the events one by one. Their events say when they left.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, assert_never

from tests.bench import wire
from tests.bench.processes import raise_file_limit
from tests.bench.wire import Mode

BACKLOG: Final = 1024
"""Connections that may wait to be accepted."""


PHASE_SECONDS: Final = 0.001
"""Streams that began one after the other get their events so far apart, if the tick allows."""


@dataclass(slots=True)
class Answers:
    """The replies by mode, and whether usage was asked for; the paced streams by phase."""

    events: int
    tick_seconds: float
    unary: dict[Mode, bytes] = field(init=False)
    bursts: dict[bool, bytes] = field(init=False)
    paced: dict[bool, list[bytes]] = field(init=False)
    responses: list[bytes] = field(init=False)
    _phases: list[dict[asyncio.Transport, Iterator[bytes]]] = field(init=False)
    _begun: int = 0

    def __post_init__(self) -> None:
        self.unary = {mode: wire.make_reply(mode) for mode in wire.UNARY}
        make = partial(wire.make_stream_writes, "chat", self.events)
        self.bursts = {usage: b"".join(make(with_usage=usage)) for usage in (True, False)}
        self.paced = {usage: make(with_usage=usage, stamped=True) for usage in (True, False)}
        self.responses = wire.make_stream_writes("responses", self.events, stamped=True)
        self._phases = [{} for _ in range(max(round(self.tick_seconds / PHASE_SECONDS), 1))]

    def pace(self, transport: asyncio.Transport, writes: Iterator[bytes]) -> None:
        self._phases[self._begun % len(self._phases)][transport] = writes
        self._begun += 1
        if self._begun == 1:
            self._tick(asyncio.get_running_loop().time(), 0)

    def _tick(self, due: float, number: int) -> None:
        streams = self._phases[number % len(self._phases)]
        for transport, writes in tuple(streams.items()):
            data = next(writes, None)
            if data is None or transport.is_closing():
                del streams[transport]
            else:
                transport.write(wire.stamp(data))
        due += self.tick_seconds / len(self._phases)
        asyncio.get_running_loop().call_at(due, self._tick, due, number + 1)


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
            case "json" | "messages" as mode:
                transport.write(answers.unary[mode])
            case "burst":
                transport.write(answers.bursts[with_usage])
            case "paced" | "responses" as mode:
                writes = answers.responses if mode == "responses" else answers.paced[with_usage]
                first, *others = writes
                transport.write(first)
                answers.pace(transport, iter(others))
            case "held":
                transport.write(answers.paced[with_usage][0])
            case unexpected:
                assert_never(unexpected)


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
    raise_file_limit()
    asyncio.run(serve(options.events, options.tick_ms / 1000))
