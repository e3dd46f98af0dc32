"""Callers who leave pay for what came, at least what was held; a refusal is free."""

from __future__ import annotations

import asyncio

from tests.support.chat import Used, estimate, estimate_sent, say
from tests.support.replies import (
    error_reply,
    sse_start,
    text_chunks,
)
from tests.support.seed import NANO, Caller
from tests.support.stage import Stage
from tests.support.upstream import End, Exchange, Wait
from tests.support.waiting import until

PROMPT = "Wie spät ist es?"
LEFT_SECONDS = 15.0
"""Limit for an upstream to go on working for a caller who left: below the idle time-out."""


async def leave_mid_stream(stage: Stage, kind: str) -> tuple[Exchange, str]:
    """Read two pieces of a stream and leave; return exchange and request id."""
    stage.alpha.play([*sse_start(text_chunks(["Hallo", ", Welt"], finish=None)), End.HANG])
    async with stage.chatting(say(stage.fresh(kind), PROMPT, stream=True)) as call:
        await call.read_head()
        seen = b""
        while b", Welt" not in seen:
            seen += await call.read_piece()
        call.reset()
    return stage.alpha.last, call.headers["x-request-id"]


async def test_caller_who_leaves_a_stream_pays_for_what_came(stage: Stage) -> None:
    """With `abort` nobody knows what the provider charges: at least what was held is paid."""
    exchange, request_id = await leave_mid_stream(stage, "abort")
    await asyncio.wait_for(exchange.closed.wait(), LEFT_SECONDS)
    held = stage.books.hold_nano(request_id)
    assert held > Used(estimate_sent(exchange.body), estimate("Hallo, Welt")).cost_nano
    assert await stage.books.charge_nano(request_id) == held
    row = await stage.books.settled(request_id)
    assert (row.outcome, row.estimated) == ("caller_left", True)


async def test_caller_who_leaves_pays_for_what_came_if_that_is_more_than_was_held(
    stage: Stage,
) -> None:
    said = "word " * 2000
    stage.alpha.play([*sse_start(text_chunks([said], finish=None)), End.HANG])
    body = say(stage.fresh("abort"), PROMPT, stream=True)
    async with stage.chatting(body) as call:
        await call.read_head()
        seen = b""
        while said.encode() not in seen:
            seen += await call.read_piece()
        call.reset()
    request_id = call.headers["x-request-id"]
    delivered = Used(estimate_sent(stage.alpha.last.body), estimate(said)).cost_nano
    assert await stage.books.charge_nano(request_id) == delivered
    assert delivered > stage.books.hold_nano(request_id)


async def test_refusal_that_crosses_a_caller_leaving_is_free(stage: Stage, spare: Caller) -> None:
    """The refusal comes before the gateway checks whether the caller is still there."""
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
    await until(lambda: stage.alpha.in_flight == 0, "the provider to be let go")
