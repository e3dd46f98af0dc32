"""Callers who leave: the upstream is let go within a second, and what came is paid."""

from __future__ import annotations

import asyncio

from support.chat import Used, estimate, say
from support.replies import (
    DONE,
    LAST_CHUNK,
    chunk,
    chunked,
    completion,
    error_reply,
    json_reply,
    sse,
    sse_reply,
    sse_start,
    text_chunks,
    usage,
)
from support.seed import NANO, Caller
from support.stage import Stage
from support.upstream import End, Exchange, Script, Wait

PROMPT = "Wie spät ist es?"
LEAVE_SECONDS = 1.0
"""How long an upstream may go on working for somebody who left."""


async def leave_mid_stream(stage: Stage, kind: str) -> tuple[Exchange, str, float]:
    """Take two pieces of a stream and go; the exchange, the request id, and when we left."""
    stage.alpha.play([*sse_start(text_chunks(["Hallo", ", Welt"], finish=None)), End.HANG])
    async with stage.chatting(say(stage.fresh(kind), PROMPT, stream=True)) as call:
        await call.read_head()
        seen = b""
        while b", Welt" not in seen:
            seen += await call.read_piece()
        call.reset()
    return stage.alpha.last, call.headers["x-request-id"], asyncio.get_running_loop().time()


async def test_caller_who_leaves_a_stream_pays_for_what_came(stage: Stage) -> None:
    exchange, request_id, left = await leave_mid_stream(stage, "plain")
    await asyncio.wait_for(exchange.closed.wait(), 5)
    assert exchange.closed_at is not None
    assert exchange.closed_at - left < LEAVE_SECONDS
    expected = Used(estimate(PROMPT), estimate("Hallo, Welt"))
    assert await stage.books.charge_nano(request_id) == expected.cost_nano
    row = await stage.books.settled(request_id)
    assert (row.outcome, row.estimated) == ("caller_left", True)


async def test_caller_who_leaves_before_the_first_byte_pays_for_the_input(
    stage: Stage, spare: Caller
) -> None:
    """The upstream was at work on it; nothing was delivered, so no output is charged."""
    stage.alpha.play([End.HANG])
    async with stage.chatting(
        say(stage.fresh("plain"), PROMPT, stream=True), key=spare.key
    ) as call:
        exchange = await stage.alpha.wait_for(1)
        call.reset()
    await asyncio.wait_for(exchange.closed.wait(), LEAVE_SECONDS)
    await stage.books.wait_for_settled(spare.account, 1)
    cost = Used(estimate(PROMPT), 0).cost_nano
    assert stage.books.balance_nano(spare.account) == 100 * NANO - cost


async def test_caller_who_leaves_after_the_finish_pays_the_reported_usage(stage: Stage) -> None:
    """The usage chunk is a moment away: it is worth waiting for."""
    gone = asyncio.Event()
    tail = [chunked(sse(chunk(None, usage=usage(40, 30)))), chunked(DONE), LAST_CHUNK]
    stage.alpha.play([*sse_start(text_chunks(["Hallo"])), Wait(gone), *tail])
    async with stage.chatting(say(stage.fresh("plain"), PROMPT, stream=True)) as call:
        await call.read_head()
        seen = b""
        while b'"stop"' not in seen:
            seen += await call.read_piece()
        call.reset()
    await asyncio.sleep(0.1)  # so that the gateway knows it first; there is no event to see that by
    gone.set()
    request_id = call.headers["x-request-id"]
    assert await stage.books.charge_nano(request_id) == Used(40, 30).cost_nano


async def test_drained_stream_is_read_to_its_end_and_paid_in_full(stage: Stage) -> None:
    """Where the provider charges for all of it anyway."""
    gone = asyncio.Event()
    tail = [*text_chunks([" und", " mehr"])[1:], chunk(None, usage=usage(40, 30))]
    start: Script = sse_start(text_chunks(["Hallo"], finish=None))
    stage.alpha.play([*start, Wait(gone), *sse_reply(tail)[1:]])
    async with stage.chatting(say(stage.fresh("drain"), PROMPT, stream=True)) as call:
        await call.read_head()
        seen = b""
        while b"Hallo" not in seen:
            seen += await call.read_piece()
        call.reset()
    await asyncio.sleep(0.1)  # as above
    gone.set()
    await asyncio.wait_for(stage.alpha.last.played.wait(), 2)
    request_id = call.headers["x-request-id"]
    assert await stage.books.charge_nano(request_id) == Used(40, 30).cost_nano


async def test_json_caller_who_leaves_pays_in_full(stage: Stage, spare: Caller) -> None:
    gone = asyncio.Event()
    stage.alpha.play([Wait(gone), *json_reply(completion(usage=usage(40, 30)))])
    async with stage.chatting(say(stage.fresh("plain")), key=spare.key) as call:
        await stage.alpha.wait_for(1)
        call.reset()
    await asyncio.sleep(0.1)  # as above
    gone.set()
    await asyncio.wait_for(stage.alpha.last.played.wait(), 2)
    await stage.books.wait_for_settled(spare.account, 1)
    assert stage.books.balance_nano(spare.account) == 100 * NANO - Used(40, 30).cost_nano


async def test_refusal_that_crosses_a_caller_leaving_is_free(stage: Stage, spare: Caller) -> None:
    """It comes before the gateway looks whether the caller is still there."""
    for count, status in enumerate((400, 429, 500), 1):
        gone = asyncio.Event()
        stage.alpha.play([Wait(gone), *error_reply(status)])
        body = say(stage.fresh("drain"), stream=True)
        async with stage.chatting(body, key=spare.key) as call:
            await stage.alpha.wait_for(count)
            call.reset()
            gone.set()
        await stage.books.wait_for_settled(spare.account, count)
    assert stage.books.balance_nano(spare.account) == 100 * NANO
    assert stage.alpha.in_flight == 0
