"""The callers of the bench: kept connections that check each reply cheaply."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.bench import wire
from tests.bench.wire import Mode

MAX_REQUESTS: Final = 100_000
"""The most requests of a slot, whatever its time."""
MAX_SECONDS: Final = 120.0
"""The longest time of a slot that ends by its count."""
REPLY_SECONDS: Final = 60.0
"""Time for the last replies after the end of a slot."""
CONNECT_AT_ONCE: Final = 100


class WrongReply(Exception):
    """A reply is wrong or incomplete, so the figures would mean nothing."""


@dataclass(slots=True)
class Tally:
    """The replies of one slot."""

    latencies_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    """From the request to a stream's first event."""
    delays_ms: list[float] = field(default_factory=list)
    """From the provider to the caller, for each event of paced streams."""
    events: int = 0
    reads: int = 0
    """The number of reads; per event it tells whether events arrive one by one."""
    seconds: float = 0.0

    @property
    def requests(self) -> int:
        return len(self.latencies_ms)


@dataclass(slots=True)
class Slot:
    """One target under one load for some time: the request, and the reply to expect."""

    port: int
    request: bytes
    mode: Mode
    events: int
    stop_at: float = 0.0
    max_requests: int = MAX_REQUESTS
    tally: Tally = field(default_factory=Tally)
    _known: bytes | None = None

    def check(self, head: bytes, raw_body: bytes) -> None:
        """Count a reply. The first one is parsed, the others compared to it. Raises WrongReply."""
        if not head.startswith(b"HTTP/1.1 200 "):
            raise WrongReply(f"{head!r} {raw_body[:500]!r}")
        body = raw_body
        if self.mode not in wire.UNARY:
            try:
                body = wire.join_chunks(raw_body)
            except ValueError as error:
                raise WrongReply(f"bad chunks: {error}") from error
            body = wire.STAMP.sub(b"", body)
            self.tally.events += self.events
        if self._known is None:
            read_reply(body, self.mode, self.events)
            self._known = body
        if body != self._known:
            raise WrongReply(f"not as the first reply: {body[:500]!r}")


def make_slot(port: int, key: str, mode: Mode, events: int) -> Slot:
    """Make the slot of a key's requests of a mode."""
    return Slot(port, wire.make_request(f"127.0.0.1:{port}", key, mode), mode, events)


class Caller(asyncio.Protocol):
    """One connection: request, whole reply, next request."""

    def __init__(self, slot: Slot) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        """Done once the first event of a stream has come."""
        self.done: asyncio.Future[None] = loop.create_future()
        self._slot = slot
        self._is_stream = slot.mode not in wire.UNARY
        self._transport: asyncio.Transport | None = None
        self._began = 0.0
        self._pieces: list[bytes] = []
        self._tail = b""
        self._missing: int | None = None
        """Bytes of the reply still to come; None if only the last chunk shows its end."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(WrongReply(f"the connection was lost: {exc}"))

    def data_received(self, data: bytes) -> None:
        self._slot.tally.reads += 1
        if self._missing is None and not self._read_head(data):
            self._tail = (self._tail + data)[-len(wire.LAST_CHUNK) :]
            self._pieces.append(data)
            if self._is_stream:
                self._time_events(data)
            if self._tail == wire.LAST_CHUNK:
                self._take()
            return
        self._pieces.append(data)
        assert self._missing is not None
        self._missing -= len(data)
        if self._missing <= 0:
            self._take()

    def _time_events(self, data: bytes) -> None:
        tally = self._slot.tally
        if not self.begun.done() and b"data: " in data:
            tally.first_ms.append((time.perf_counter() - self._began) * 1000)
            self.begun.set_result(None)
        stamps = wire.STAMP.findall(data)
        if stamps:
            now = time.monotonic()
            tally.delays_ms += [(now - float(stamp)) * 1000 for stamp in stamps]

    def _read_head(self, data: bytes) -> bool:
        """Return whether the length is known. All targets send a head in one piece."""
        if self._pieces:
            return False
        end = data.find(wire.HEAD_END)
        length = wire.read_content_length(data[: end + 2]) if end >= 0 else None
        if length is not None:
            self._missing = end + len(wire.HEAD_END) + length
        return length is not None

    def ask(self) -> None:
        """Send the request."""
        assert self._transport is not None
        self._pieces, self._tail, self._missing = [], b"", None
        self._began = time.perf_counter()
        self._transport.write(self._slot.request)

    def _take(self) -> None:
        now = time.perf_counter()
        tally = self._slot.tally
        head, _, body = b"".join(self._pieces).partition(wire.HEAD_END)
        try:
            self._slot.check(head, body)
        except WrongReply as error:
            self._fail(error)
            return
        tally.latencies_ms.append((now - self._began) * 1000)
        if now < self._slot.stop_at and tally.requests < self._slot.max_requests:
            self.ask()
        elif not self.done.done():
            self.done.set_result(None)

    def _fail(self, error: WrongReply) -> None:
        for waited in (self.begun, self.done):
            if not waited.done():
                waited.set_exception(error)
                waited.exception()  # nobody need wait for both

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def connect(slot: Slot, connections: int) -> list[Caller]:
    """Open the connections, some at a time."""
    loop = asyncio.get_running_loop()
    callers: list[Caller] = []
    for start in range(0, connections, CONNECT_AT_ONCE):
        made = await asyncio.gather(
            *(
                loop.create_connection(lambda: Caller(slot), "127.0.0.1", slot.port)
                for _ in range(min(CONNECT_AT_ONCE, connections - start))
            )
        )
        callers += [caller for _, caller in made]
    return callers


async def run_slot(slot: Slot, connections: int, seconds: float) -> Tally:
    """Load one target and return when the last reply has come. Raises WrongReply."""
    callers = await connect(slot, connections)
    began = time.perf_counter()
    slot.stop_at = began + seconds
    try:
        for caller in callers:
            caller.ask()
        async with asyncio.timeout(seconds + REPLY_SECONDS):
            await asyncio.gather(*(caller.done for caller in callers))
    except TimeoutError as error:
        raise WrongReply("replies are still missing long after the slot's end") from error
    finally:
        slot.tally.seconds = time.perf_counter() - began
        for caller in callers:
            caller.close()
    return slot.tally


async def run_paced(
    slot: Slot, connections: int, seconds: float, read_cpu_seconds: Callable[[], float]
) -> tuple[Tally, float]:
    """Start so many paced streams together and wait for their ends. Raises WrongReply.

    Return the tally and the target's CPU time in the middle, while all streams run and none begins
    or ends; delays, events and reads are of that time only.
    """
    callers = await connect(slot, connections)
    try:
        for caller in callers:
            caller.ask()
        async with asyncio.timeout(MAX_SECONDS):
            await asyncio.gather(*(caller.begun for caller in callers))
            tally = slot.tally
            await asyncio.sleep(seconds / 4)
            tally.delays_ms, tally.reads, before = [], 0, read_cpu_seconds()
            await asyncio.sleep(seconds)
            spent, reads, delays = read_cpu_seconds() - before, tally.reads, tally.delays_ms[:]
            if tally.requests:
                raise WrongReply("a stream ended before its time: it has too few events")
            await asyncio.gather(*(caller.done for caller in callers))
    finally:
        for caller in callers:
            caller.close()
    tally.delays_ms, tally.reads, tally.events, tally.seconds = delays, reads, len(delays), seconds
    return tally, spent


async def hold_streams(slot: Slot, connections: int, look: Callable[[], None]) -> None:
    """Open so many streams, look once each has its first event, and leave. Raises WrongReply."""
    callers = await connect(slot, connections)
    try:
        async with asyncio.timeout(MAX_SECONDS):
            for caller in callers:
                caller.ask()
            await asyncio.gather(*(caller.begun for caller in callers))
            await asyncio.sleep(1)
        look()
    finally:
        for caller in callers:
            caller.close()


async def run_requests(slot: Slot, count: int, connections: int = 1) -> None:
    """Send so many requests, on one connection unless told otherwise. Raises WrongReply."""
    slot.max_requests = count
    await run_slot(slot, connections, MAX_SECONDS)


def read_reply(body: bytes, mode: Mode, events: int) -> None:
    """Compare a reply with the provider's. Raises WrongReply."""
    if mode in wire.UNARY:
        reply = json.loads(body)
        said = reply["content"][0] if mode == "messages" else reply["choices"][0]["message"]
        if said["text" if mode == "messages" else "content"] != wire.make_text(wire.JSON_FRAGMENTS):
            raise WrongReply("the text is not what the provider sent")
        return
    blocks = body.split(b"\n\n")
    if mode == "responses":
        told = [json.loads(block.partition(b"data: ")[2]) for block in blocks[:-1]]
        words = "".join(one.get("delta", "") for one in told)
        if len(told) != events or words != wire.make_text(events - 2):
            raise WrongReply("the text is not what the provider sent")
        return
    if not body.endswith(wire.DONE) or len(blocks) != events + 2:
        raise WrongReply(f"{len(blocks) - 1} blocks for {events} events and [DONE]")
    chunks = [json.loads(block.removeprefix(b"data: ")) for block in blocks[:events]]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    if text != wire.make_text(events - 2):
        raise WrongReply("the text is not what the provider sent")
