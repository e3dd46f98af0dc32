"""Mutated requests on raw sockets: played by the thousand, and what must be true of every answer."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from mutations_kit import mutate
from scene_kit import Vitals, at_most, set_stage
from support.chat import say
from support.config import Kind
from support.messages import frames, make_events, make_message
from support.process import CHAT
from support.replies import completion, json_reply, sse_reply, stream_chunks
from support.stage import Stage
from support.upstream import Exchange, Script
from support.waiting import until

AT_ONCE: Final = 50
HEADER_SECONDS: Final = 0.6
BODY_IDLE_SECONDS: Final = 0.4
SERVER: Final = (
    f"header_seconds = {HEADER_SECONDS}\nbody_idle_seconds = {BODY_IDLE_SECONDS}\n"
    f"body_total_seconds = {BODY_IDLE_SECONDS}"
)
DEADLINE_SECONDS: Final = 8.0
"""Far beyond every deadline of the server's, for a machine with much else to do."""
CHECK_EVERY: Final = 50
FAULTS_TOLD: Final = 5
SPARE_DESCRIPTORS: Final = 4
"""Those of the books come and go."""
KINDS: Final = {
    "chat": Kind(("alpha",), 2),
    "messages": Kind(("alpha",), 2, dialects=("messages",)),
}
STATUS: Final = re.compile(rb"HTTP/(?:0\.9|1\.[01]) (\d{3}) ")
"""0.9 answers who names no version: a 404, or a 401 of what happens to be a path."""
ALLOWED: Final = frozenset({100, 200, 400, 401, 402, 403, 404, 405, 408, 411, 413, 415, 417, 431})
"""A mutation is the caller's fault: never a 5xx, for upstream and gateway are well."""


def answer(exchange: Exchange) -> Script:
    """A provider of either dialect that is well."""
    is_stream = exchange.json.get("stream") is True
    if exchange.target.endswith("/messages"):
        if is_stream:
            return sse_reply(frames(make_events()), done=False)
        return json_reply(make_message())
    if exchange.target.endswith("/count_tokens"):
        return json_reply({"input_tokens": 7})
    return sse_reply(stream_chunks(["Hello"])) if is_stream else json_reply(completion())


@dataclass(slots=True)
class Report:
    """What came of it, and what was wrong."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


async def send_raw(stage: Stage, data: bytes, *, half_close: bool) -> bytes | None:
    """All that came back until the gateway closed; None when it did not in time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    try:
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            if half_close:
                writer.write_eof()
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await _read_to_close(reader)
    except TimeoutError:
        return None
    finally:
        writer.transport.abort()


async def _read_to_close(reader: asyncio.StreamReader) -> bytes:
    out = bytearray()
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(2**16):
            out += data
    return bytes(out)


def find_fault(came: bytes | None) -> str | None:
    if came is None:
        return "the connection was still open at the deadline"
    if not came:
        return None
    if not STATUS.match(came):
        return f"no HTTP: {came[:80]!r}"
    strange = {int(one) for one in STATUS.findall(came)} - ALLOWED
    return f"status {strange}: {came[:300]!r}" if strange else None


async def play_one(stage: Stage, report: Report, seed: int, number: int) -> None:
    data = mutate(seed, number, stage.key)
    came = await send_raw(stage, data, half_close=number % 3 == 0)
    fault = find_fault(came)
    if fault is None and number % CHECK_EVERY == 0:
        fault = await find_fault_after(stage)
    if fault is not None:
        report.wrong.append(f"seed {seed} number {number}: {fault}\n  {data[:2000]!r}")
    report.statuses.update(int(one) for one in STATUS.findall(came or b""))
    report.statuses[0] += not came


async def find_fault_after(stage: Stage) -> str | None:
    """The next request on a new connection works."""
    reply = await stage.gateway.post(CHAT, stage.key, say("chat/0"))
    return None if reply.status == 200 else f"the next request: {reply.status} {reply.body!r}"


async def play_fuzz(seed: int, count: int) -> Report:
    """Play that many inputs. Raises AssertionError for what was wrong or is left behind."""
    report = Report()
    async with set_stage(kinds=KINDS, server=SERVER) as stage:
        stage.alpha.always(answer)
        vitals = Vitals(stage.gateway)
        await find_fault_after(stage)
        before = vitals.descriptors - len(stage.alpha._open)
        jobs = [partial(play_one, stage, report, seed, number) for number in range(count)]
        await at_most(AT_ONCE, jobs)
        await until(
            lambda: vitals.descriptors - len(stage.alpha._open) <= before + SPARE_DESCRIPTORS,
            f"the descriptors of {count} inputs to be closed (seed {seed})",
        )
        fault = await find_fault_after(stage)
        report.wrong += [] if fault is None else [fault]
        assert not report.wrong, "\n".join(report.wrong[:FAULTS_TOLD])
    return report
