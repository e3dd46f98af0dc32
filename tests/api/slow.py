"""Callers that read, write or do nothing, and their effect on the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import select
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Literal

from tests.api.scene import Vitals, at_most, set_stage
from tests.support.chat import say
from tests.support.client import request
from tests.support.config import Kind
from tests.support.process import CHAT
from tests.support.replies import (
    chunk,
    chunked,
    completion,
    json_reply,
    sse,
    sse_start,
    text_chunks,
)
from tests.support.stage import Stage
from tests.support.upstream import End, Exchange, Script

KINDS: Final = {"plain": Kind(("alpha",), 2, 'on_disconnect = "abort"')}
MIB: Final = 2**20
RECEIVE_BYTES: Final = 4096
OPEN_AT_ONCE: Final = 100
SAMPLES: Final = 200
"""The number of timed requests."""
SAMPLES_AT_ONCE: Final = 4
LATE_SECONDS: Final = 100.0
"""Slack of a deadline: a refusal lingers 2 s, and machines are busy."""
PIECE: Final = chunked(sse(chunk({"content": "word " * 200})) * 16)
PIECES: Final = 64 * MIB // len(PIECE)
"""More than all buffers of the kernel between provider and caller."""
LOOK_SECONDS: Final = 0.1
DRIPS_PER_SECOND: Final = 2000
"""The rate of all callers together, as the test shares its processor with the gateway."""

Way = Literal["idle", "head", "body", "reader"]
"""The ways of a slow caller: say nothing, send a head or a body without end, or read no reply."""


def answer(exchange: Exchange) -> Script:
    """Reply with JSON at once, or with streams far longer than any buffer, as fast as read."""
    if exchange.json.get("stream"):
        start = sse_start(text_chunks(["Hello"], finish=None))
        return [*start, *[PIECE] * PIECES, End.HANG]
    return json_reply(completion())


@dataclass(frozen=True, slots=True)
class Figures:
    """The cost of a crowd of slow callers: memory, and the latency of the others."""

    callers: int
    rss_bytes_each: float
    p99_before_ms: float
    p99_during_ms: float
    gone_after_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.callers} callers: {self.rss_bytes_each / MIB:.3f} MiB of RSS each, "
            f"p99 of the others {self.p99_before_ms:.1f} -> {self.p99_during_ms:.1f} ms, "
            f"all cut {self.gone_after_seconds:.1f} s after the last came"
        )


async def measure_p99_ms(stage: Stage, count: int) -> float:
    """Measure the p99 of healthy requests, a few at a time, each on its own connection."""

    async def ask() -> float:
        started = time.perf_counter()
        reply = await stage.gateway.chat(stage.key, say("plain/0"))
        assert reply.status == 200, reply.body
        return (time.perf_counter() - started) * 1000

    taken = sorted(await at_most(SAMPLES_AT_ONCE, [ask] * count))
    return taken[int(len(taken) * 0.99)]


class Crowd:
    """Connections that each sent the same bytes and read nothing."""

    def __init__(self, port: int, opening: bytes) -> None:
        self._port = port
        self._opening = opening
        self._poll = select.poll()
        self.open: dict[int, socket.socket] = {}
        self.closed: list[socket.socket] = []

    async def gather(self, count: int) -> None:
        await at_most(OPEN_AT_ONCE, [self._join] * count)

    async def _join(self) -> None:
        one = socket.socket()
        self.open[one.fileno()] = one
        self._poll.register(one, select.POLLRDHUP)
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(one, ("127.0.0.1", self._port))
        if self._opening:
            await loop.sock_sendall(one, self._opening)

    def count_open(self) -> int:
        """Return how many connections the gateway has not closed."""
        for descriptor, _ in self._poll.poll(0):
            self._poll.unregister(descriptor)
            self.closed.append(self.open.pop(descriptor))
        return len(self.open)

    def say_more(self, data: bytes) -> None:
        """Send bytes on every connection that is still open."""
        for one in self.open.values():
            with contextlib.suppress(OSError):
                one.send(data)

    def hear(self) -> list[bytes]:
        """Return the first bytes that came by each connection that was closed."""
        told = []
        for one in self.closed:
            try:
                told.append(one.recv(RECEIVE_BYTES))
            except ConnectionError:
                told.append(b"")
        return told

    def leave(self) -> None:
        for one in (*self.open.values(), *self.closed):
            one.close()


@contextlib.asynccontextmanager
async def crowd(stage: Stage, opening: bytes, count: int) -> AsyncIterator[Crowd]:
    people = Crowd(stage.gateway.port, opening)
    try:
        await people.gather(count)
        yield people
    finally:
        people.leave()


def open_slowly(stage: Stage, way: Way) -> tuple[bytes, bytes]:
    """Return what a slow caller sends at first, and then again and again."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {stage.key}"}
    match way:
        case "idle":
            return b"", b""
        case "head":
            return request("POST", CHAT, headers)[:-2] + b"X-Slow: ", b"a"
        case "body":
            return request("POST", CHAT, headers | {"Content-Length": "1000"}) + b"{", b" "
        case "reader":
            body = json.dumps(say("plain/1", stream=True)).encode()
            return request("POST", CHAT, headers, body), b""


async def play_slow(
    way: Way, count: int, server: str, deadline_seconds: float, *, samples: int = SAMPLES
) -> tuple[Figures, set[bytes]]:
    """Play callers who send no whole request, or read nothing; they are cut at the deadline.

    Return what they cost, and the first line of what each was told.
    """
    server += f"\nmax_in_flight = {2 * count + 100}"
    async with set_stage(kinds=KINDS, server=server) as stage:
        stage.alpha.always(answer)
        vitals = Vitals(stage.gateway)
        before_ms = await measure_p99_ms(stage, samples)
        rss = most_rss = vitals.rss_bytes
        opening, drip = open_slowly(stage, way)

        def count_open() -> int:
            """Return how many are open. A caller that reads nothing does not see the end, but the provider does."""
            if way != "reader":
                return people.count_open()
            streams = [one for one in stage.alpha.exchanges if one.json.get("stream")]
            return count - sum(one.closed.is_set() for one in streams)

        async with crowd(stage, opening, count) as people:
            last = time.monotonic()
            measuring = asyncio.get_running_loop().create_task(measure_p99_ms(stage, samples))
            async with asyncio.timeout(deadline_seconds + LATE_SECONDS + count / 100):
                while left := count_open():
                    people.say_more(drip)
                    await asyncio.sleep(max(LOOK_SECONDS, left / DRIPS_PER_SECOND))
                    most_rss = max(most_rss, vitals.rss_bytes)
            gone_seconds = time.monotonic() - last
            told = {one.partition(b"\r\n")[0] for one in people.hear()}
            during_ms = await measuring
    each = (most_rss - rss) / count
    return Figures(count, each, before_ms, during_ms, gone_seconds), told
