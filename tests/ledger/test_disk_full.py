"""A real server on a disk that fills up: nobody spends, nobody waits long, and it comes back.

The disk takes no file beyond a limit that the kernel keeps for the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sqlite3
import time

import pytest

from tests.ledger.contract.kit import WAIT_SECONDS
from tests.support import config
from tests.support.chat import Used, check_error, read_broken_stream, say
from tests.support.client import Call
from tests.support.replies import (
    DONE,
    LAST_CHUNK,
    USAGE,
    chunk,
    chunked,
    completion,
    json_reply,
    sse,
    sse_start,
    text_chunks,
)
from tests.support.running import Launch, Running
from tests.support.seed import Seed
from tests.support.upstream import ScriptedUpstream, Wait
from tests.support.waiting import until

KINDS = {"plain": config.Kind(("alpha",), 1)}
MODEL = "plain/0"
COST = Used(USAGE["prompt_tokens"], USAGE["completion_tokens"]).cost_nano
COMMIT_SECONDS = 5.0


def limit_files(one: Running, size: int) -> None:
    """Let no file of the gateway's grow beyond a size."""
    assert one.gateway.process is not None
    pid = one.gateway.process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def ask(one: Running) -> int:
    """The status of a request."""
    reply = await one.gateway.chat(one.callers["rich"].key, say(MODEL))
    if reply.status == 503:
        check_error(reply, 503, "server_is_overloaded")
    return reply.status


@pytest.mark.slow
async def test_full_disk_refuses_at_once_and_passes(
    launch: Launch, alpha: ScriptedUpstream
) -> None:
    last = asyncio.Event()
    text = [sse(one) for one in text_chunks(["half "], finish=None)]
    end = [chunked(sse(one)) for one in (chunk({}, finish="stop"), chunk(None, usage=USAGE))]
    one = launch(kinds=KINDS)
    key = one.callers["rich"].key
    alpha.play([*sse_start(text), Wait(last), *end, chunked(DONE), LAST_CHUNK])
    async with one.gateway.chatting(key, say(MODEL, stream=True)) as stream:
        await stream.read_head()
        before = stream.headers["x-request-id"]
        with contextlib.closing(sqlite3.connect(one.gateway.database)) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        limit_files(one, 0)
        alpha.always(json_reply(completion()))
        loop = asyncio.get_running_loop()
        in_flight = [loop.create_task(json_in_flight(one))]
        await until_refused(one)
        in_flight.append(loop.create_task(stream_in_flight(stream, last)))
        await alpha.wait_for(2)
        assert {await ask(one) for _ in range(10)} == {503}
        assert len(alpha.exchanges) == 2, "none went on to the provider"
        assert (await one.gateway.ask("GET", "/readyz")).status == 503
        assert (await one.gateway.ask("GET", "/healthz")).status == 200
        await asyncio.gather(*in_flight)
    limit_files(one, resource.RLIM_INFINITY)
    freed = time.monotonic()
    await until(
        lambda: one.books.cached_balance_nano("rich") != one_hundred(), "the stream's charge"
    )
    while await ask(one) != 200:  # noqa: ASYNC110 - it tells nobody
        await asyncio.sleep(0.05)
    print(f"recovered in {time.monotonic() - freed:.2f} s")
    row = await one.books.settled(before)
    assert (row.state, row.cost_nano) == ("posted", COST)
    assert one.books.balance_nano("rich") == one_hundred() - 2 * COST
    verb = await one.gateway.run("audit")
    assert verb.code == 0, verb.err


def one_hundred() -> int:
    return Seed("rich").credit_nano


async def until_refused(one: Running) -> None:
    """The first request after the disk filled up finds it out; it is not charged."""
    async with asyncio.timeout(WAIT_SECONDS):
        while (await one.gateway.ask("GET", "/readyz")).status != 503:  # noqa: ASYNC110 - likewise
            await asyncio.sleep(0.01)


async def json_in_flight(one: Running) -> None:
    """Its reply was there, but could not be charged: 503, and the SDK is not to retry."""
    started = time.perf_counter()
    reply = await one.gateway.chat(one.callers["rich"].key, say(MODEL))
    assert (reply.status, reply.headers["x-should-retry"]) == (503, "false")
    assert time.perf_counter() - started >= COMMIT_SECONDS


async def stream_in_flight(stream: Call, last: asyncio.Event) -> None:
    """It goes on; its charge cannot be committed in time, so it ends with an error event."""
    last.set()
    started = time.perf_counter()
    reply = await stream.read_all()
    assert time.perf_counter() - started >= COMMIT_SECONDS - 0.1
    said = read_broken_stream(reply.body, MODEL, "server_is_overloaded")
    assert said.text == "half "
