"""A gateway that was stopped for longer than its time-outs blames nobody for it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
from contextlib import closing
from typing import Final

import pytest

from tests.support.chat import read_stream, say
from tests.support.client import Reply, request
from tests.support.config import Kind
from tests.support.process import CHAT
from tests.support.replies import DONE, LAST_CHUNK, chunked, sse, sse_start, stream_chunks
from tests.support.running import Launch
from tests.support.upstream import Drip, Exchange, ScriptedUpstream, Step, Wait
from tests.support.waiting import until

STREAMS: Final = 100
STOP_SECONDS: Final = 3.0
KINDS: Final = {
    "plain": Kind(("alpha",), 1, "connect_timeout = 2\nfirst_byte_timeout = 2\nidle_timeout = 2")
}
SERVER: Final = "header_seconds = 2\nbody_idle_seconds = 2\nstall_seconds = 2"
WORDS: Final = ["word "] * 50


@pytest.mark.slow
async def test_a_pause_is_nobodys_silence(launch: Launch, alpha: ScriptedUpstream) -> None:
    """Streams that go on or have ended, a body half sent, and a caller that asks again meanwhile."""
    running = launch(kinds=KINDS, server=SERVER)
    gateway, key = running.gateway, running.callers["rich"].key
    assert gateway.process is not None
    stopped = asyncio.Event()
    first, *rest = stream_chunks(WORDS)

    def answer(_: Exchange) -> list[Step]:
        ends_meanwhile = len(alpha.exchanges) % 2
        pieces = [chunked(sse(one)) for one in (*rest, DONE)]
        interval = STOP_SECONDS / len(pieces) * (0.5 if ends_meanwhile else 1.5)
        return [*sse_start([first]), Wait(stopped), Drip(pieces, interval), LAST_CHUNK]

    alpha.always(answer)
    body = json.dumps(say("plain/0", stream=True)).encode()
    whole = request(
        "POST", CHAT, {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}, body
    )

    async def stream(*, cut: int = 0) -> Reply:
        async with gateway.connect() as call:
            await call.send(whole[:-cut] if cut else whole)
            if cut:
                await stopped.wait()
                await call.send(whole[-cut:])
            return await call.read_all()

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(stream()) for _ in range(STREAMS)]
        await until(lambda: len(alpha.exchanges) == STREAMS, "all streams")
        # Only now: who is silent for two seconds before the pause is cut.
        tasks.append(group.create_task(stream(cut=9)))
        await asyncio.sleep(0.5)
        async with gateway.connect() as idle:
            await idle.send(request("GET", "/v1/models", {"Authorization": f"Bearer {key}"}))
            await idle.read_all()
            os.kill(gateway.process.pid, signal.SIGSTOP)
            stopped.set()
            await idle.send(whole)
            await asyncio.sleep(STOP_SECONDS)
            os.kill(gateway.process.pid, signal.SIGCONT)
            await idle.read_head()
            last = await idle.read_all()
        replies = [await task for task in tasks] + [last]
    for one in replies:
        assert (one.status, one.complete) == (200, True), one
        assert read_stream(one.body, "plain/0").text == "".join(WORDS)
    with closing(sqlite3.connect(gateway.database)) as books:
        ends = "SELECT outcome, estimated, count(*) FROM requests GROUP BY 1, 2"
        await until(
            lambda: [*books.execute(ends)] == [("complete", 0, len(replies))], "the charges"
        )
        calls = "SELECT sum(calls), sum(failures) FROM upstream_calls"
        await until(lambda: [*books.execute(calls)] == [(len(replies), 0)], "the counts")
