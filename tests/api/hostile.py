"""Thousands of mutated requests on raw sockets, and the rules that every reply must keep."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tests.api.language import REPLIES, conform
from tests.api.mutations import mutate
from tests.api.scene import Vitals, at_most, set_stage
from tests.support.chat import say
from tests.support.config import EMBEDS, Kind
from tests.support.process import CHAT
from tests.support.stage import Stage
from tests.support.upstream import Exchange, Script
from tests.support.waiting import until

AT_ONCE: Final = 50
HEADER_SECONDS: Final = 0.6
BODY_IDLE_SECONDS: Final = 0.4
SERVER: Final = (
    f"header_seconds = {HEADER_SECONDS}\nkeep_alive_seconds = {HEADER_SECONDS}\nbody_idle_seconds = {BODY_IDLE_SECONDS}\n"
    f"body_total_seconds = {BODY_IDLE_SECONDS}"
)
DEADLINE_SECONDS: Final = 30.0
"""Far beyond every deadline of the server, as the machine may be busy."""
CHECK_EVERY: Final = 50
FAULTS_TOLD: Final = 5
SPARE_DESCRIPTORS: Final = 4
"""Descriptors of the books, which come and go."""
KINDS: Final = {
    "chat": Kind(("alpha",), 2),
    "messages": Kind(("alpha",), 2, dialects=("messages",)),
    "embed": Kind(("alpha",), 1, makes=EMBEDS),
}
STATUS: Final = re.compile(rb"HTTP/(?:0\.9|1\.[01]) (\d{3}) ")
"""HTTP/0.9 is the reply to a request without a version: a 404, or a 401 for a known path."""
ALLOWED: Final = frozenset({100, 200, 400, 401, 402, 403, 404, 405, 408, 411, 413, 415, 417, 431})
"""A mutation is the caller's fault, so never a 5xx: upstream and gateway work."""


def answer(exchange: Exchange) -> Script:
    """Reply like a working provider of any path."""
    return conform(exchange, {} if exchange.target in REPLIES else {"input_tokens": 7})


@dataclass(slots=True)
class Report:
    """The results of a run, and its faults."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


async def send_raw(stage: Stage, data: bytes, *, half_close: bool) -> bytes | None:
    """Send bytes; return all that came until the gateway closed, or None if it did not in time."""
    reader, writer = await asyncio.open_connection("127.0.0.1", stage.gateway.port)
    try:
        writer.write(data)
        # Half of a connection that was reset cannot be closed: ENOTCONN is no ConnectionError.
        with contextlib.suppress(OSError):
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
    """Check that the next request on a new connection works."""
    reply = await stage.gateway.post(CHAT, stage.key, say("chat/0"))
    return None if reply.status == 200 else f"the next request: {reply.status} {reply.body!r}"


async def play_fuzz(seed: int, count: int) -> Report:
    """Play that many inputs. Raises AssertionError for faults and for anything left behind."""
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
