"""Callers that read, write or do nothing, and their effect on the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tests.api.scene import Vitals, at_most, read_all_settled, set_stage
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
from tests.support.waiting import until

KINDS: Final = {"plain": Kind(("alpha",), 2, 'on_disconnect = "abort"')}
MIB: Final = 2**20
RECEIVE_BYTES: Final = 4096
OPEN_AT_ONCE: Final = 100
SAMPLES: Final = 200
"""The number of timed requests."""
SAMPLES_AT_ONCE: Final = 4
LATE_SECONDS: Final = 30.0
"""Slack of a deadline: a refusal lingers 2 s, and machines are busy."""
PIECE: Final = chunked(sse(chunk({"content": "word " * 200})) * 16)
PIECES: Final = 64 * MIB // len(PIECE)
"""More than all buffers of the kernel between provider and caller."""
QUIET_SECONDS: Final = 0.2
DRIPS_PER_SECOND: Final = 2000
"""The rate of all callers together, as the test shares its processor with the gateway."""


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


async def measure_p99_ms(stage: Stage, count: int = SAMPLES) -> float:
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
        self.sockets: list[socket.socket] = []
        self.listening = 0
        """The number of connections that wait for a reply."""

    async def gather(self, count: int) -> None:
        await at_most(OPEN_AT_ONCE, [self._join] * count)

    async def _join(self) -> None:
        one = socket.socket()
        self.sockets.append(one)
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(one, ("127.0.0.1", self._port))
        if self._opening:
            await loop.sock_sendall(one, self._opening)

    def say_more(self, data: bytes) -> None:
        """Send a byte on every connection that is still open."""
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.send(data)

    async def read_to_close(self) -> list[bytes]:
        """Return what each connection received until the gateway closed it."""
        return await asyncio.gather(*(self._read_to_close(one) for one in self.sockets))

    async def _read_to_close(self, one: socket.socket) -> bytes:
        self.listening += 1
        out = b""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while data := await loop.sock_recv(one, 2**16):
                out += data
        return out

    def leave(self) -> None:
        for one in self.sockets:
            one.close()


@contextlib.asynccontextmanager
async def crowd(stage: Stage, opening: bytes, count: int) -> AsyncIterator[Crowd]:
    people = Crowd(stage.gateway.port, opening)
    try:
        await people.gather(count)
        yield people
    finally:
        people.leave()


def head_of(stage: Stage, *extra: tuple[str, str], body: bytes | None = None) -> bytes:
    headers = [("Content-Type", "application/json"), ("Authorization", f"Bearer {stage.key}")]
    return request("POST", CHAT, [*headers, *extra], body)


async def play_stalled_readers(count: int, stall_seconds: float) -> Figures:
    """Play streams that nobody reads: memory is bounded, and they end after `stall_seconds`."""
    server = f"stall_seconds = {stall_seconds}\nmax_in_flight = {count + 100}"
    async with set_stage(kinds=KINDS, server=server) as stage:
        stage.alpha.always(answer)
        vitals = Vitals(stage.gateway)
        before_ms = await measure_p99_ms(stage)
        rss = vitals.rss_bytes
        opening = head_of(stage, body=json.dumps(say("plain/1", stream=True)).encode())
        async with crowd(stage, opening, count):
            last = time.monotonic()
            streams = await wait_for_streams(stage, count)
            await wait_for_quiet(vitals)
            during_ms = await measure_p99_ms(stage)
            each = (vitals.rss_bytes - rss) / count
            async with asyncio.timeout(stall_seconds + LATE_SECONDS + count / 100):
                await asyncio.gather(*(one.closed.wait() for one in streams))
            gone_seconds = time.monotonic() - last
        await check_all_left(stage, count)
    return Figures(count, each, before_ms, during_ms, gone_seconds)


async def wait_for_quiet(vitals: Vitals) -> None:
    """Wait until all buffers between provider and caller are full and no byte moves."""
    used = -1.0
    while (now := vitals.cpu_seconds) - used > QUIET_SECONDS / 10:
        used = now
        await asyncio.sleep(QUIET_SECONDS)


async def wait_for_streams(stage: Stage, count: int) -> list[Exchange]:
    def find() -> list[Exchange]:
        return [one for one in stage.alpha.exchanges if one.json.get("stream")]

    await until(lambda: len(find()) == count, f"{count} streams", seconds=60)
    return find()


async def check_all_left(stage: Stage, count: int) -> None:
    """Check that each has one row, as a caller who left, and paid for the delivered part."""

    def find() -> list[bool]:
        rows = read_all_settled(stage.books).values()
        return [
            row.charged_nano == row.cost_nano > 0 for row in rows if row.outcome == "caller_left"
        ]

    await until(lambda: len(find()) == count, f"{count} callers who left")
    assert all(find())


async def play_slow_writers(
    count: int, server: str, deadline_seconds: float, opening: str, drip: bytes
) -> tuple[Figures, Sequence[bytes]]:
    """Play callers who never finish their requests, dripping or not; they are cut at the deadline.

    `opening` is what they send first: `idle` nothing, `head` a part of a head, `body` of a body.
    """
    async with set_stage(kinds=KINDS, server=server) as stage:
        stage.alpha.always(answer)
        vitals = Vitals(stage.gateway)
        before_ms = await measure_p99_ms(stage)
        rss = vitals.rss_bytes
        openings = {
            "idle": b"",
            "head": head_of(stage)[:-2] + b"X-Slow: ",
            "body": head_of(stage, ("Content-Length", "1000")) + b"{",
        }
        async with crowd(stage, openings[opening], count) as people:
            last = time.monotonic()
            over = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(_drip(people, drip, over))
                reading = group.create_task(people.read_to_close())
                await until(
                    lambda: people.listening == count and vitals.descriptors > count,
                    "all to be let in",
                    seconds=60,
                )
                during_ms = await measure_p99_ms(stage)
                each = (vitals.rss_bytes - rss) / count
                async with asyncio.timeout(deadline_seconds + LATE_SECONDS + count / 500):
                    told = await reading
                gone_seconds = time.monotonic() - last
                over.set()
        await until(lambda: vitals.descriptors < 64, "the descriptors to be closed")
    return Figures(count, each, before_ms, during_ms, gone_seconds), told


async def _drip(people: Crowd, drip: bytes, over: asyncio.Event) -> None:
    interval_seconds = max(0.1, len(people.sockets) / DRIPS_PER_SECOND)
    while drip and not over.is_set():
        people.say_more(drip)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), interval_seconds)


play_slow_heads = partial(play_slow_writers, opening="head", drip=b"a")
play_slow_bodies = partial(play_slow_writers, opening="body", drip=b" ")
play_idlers = partial(play_slow_writers, opening="idle", drip=b"")
