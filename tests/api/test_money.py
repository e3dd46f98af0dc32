"""Money over HTTP: exact charges, no overspent balances, callers who are shut out."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from gateway.ledger.opening import open_books
from tests.support.chat import MAX_OUTPUT_TOKENS, Used, check_error, read_stream, say
from tests.support.client import Reply, request
from tests.support.process import CHAT
from tests.support.replies import (
    DONE,
    LAST_CHUNK,
    Json,
    chunked,
    completion,
    json_reply,
    sse,
    sse_reply,
    sse_start,
    stream_chunks,
    usage,
)
from tests.support.running import Launch, Running
from tests.support.seed import NANO, Caller, Seed
from tests.support.stage import Stage
from tests.support.upstream import Exchange, Script, ScriptedUpstream, Wait
from tests.support.waiting import until


async def test_balance_goes_below_zero_once_and_a_credit_lifts_it(
    launch: Launch, stage: Stage
) -> None:
    """Any positive rest buys one more request; after that only a credit helps."""
    running = launch(seeds=(Seed("small", 1),))
    key = running.callers["small"].key
    stage.alpha.always(json_reply(completion()))
    cost = Used(11, 7).cost_nano
    assert (await running.gateway.chat(key, say("plain/0"))).status == 200
    assert running.books.balance_nano("small") == 1 - cost
    check_error(await running.gateway.chat(key, say("plain/0")), 402, "insufficient_quota")
    with open_books(running.gateway.database) as books:
        books.entries.credit("small", NANO // 2)
    assert (await running.gateway.chat(key, say("plain/0"))).status == 200, "the very next request"
    assert running.books.balance_nano("small") == 1 - 2 * cost + NANO // 2


STREAMS = 60


async def crowd(
    running: Running, alpha: ScriptedUpstream, bodies: list[Json], used: Json
) -> list[Reply]:
    """Ask for all at once; the provider replies once each is with it or refused."""
    gate, key = asyncio.Event(), running.callers["crowd"].key
    replies: list[Reply] = []

    def answer(exchange: Exchange) -> Script:
        if exchange.json.get("stream"):
            return [Wait(gate), *sse_reply(stream_chunks(["Hi"], used))]
        return [Wait(gate), *json_reply(completion(usage=used))]

    async def ask(body: Json) -> None:
        replies.append(await running.gateway.chat(key, body))

    alpha.always(answer)
    async with asyncio.TaskGroup() as group:
        for body in bodies:
            group.create_task(ask(body))
        await until(lambda: len(replies) + alpha.in_flight >= len(bodies), "the crowd")
        gate.set()
    return replies


@pytest.mark.parametrize(
    ("worth", "said", "read"),
    [
        (2.5, "x" * 200, 100),
        (2.5, [{"type": "video", "video": {"url": "https://x/y.mp4"}}], 2_000_000),
    ],
)
async def test_a_crowd_that_uses_all_it_states_costs_less_than_one_request_too_much(
    launch: Launch, stage: Stage, worth: float, said: Any, read: int
) -> None:
    """A balance that bears all requests refuses none: the first holds are small beside it."""
    full = Used(read, MAX_OUTPUT_TOKENS).cost_nano
    running = launch(seeds=(Seed("crowd", int(worth * full)),))
    body = say("plain/0", "", max_tokens=MAX_OUTPUT_TOKENS, stream=True)
    body["messages"][0]["content"] = said
    replies = await crowd(running, stage.alpha, [body] * STREAMS, usage(read, MAX_OUTPUT_TOKENS))
    assert int(worth) <= [reply.status for reply in replies].count(200) <= int(worth) + 1
    assert {reply.status for reply in replies} == {200, 429}
    assert -running.books.balance_nano("crowd") < full


async def until_status(stage: Stage, secret: str, status: int) -> None:
    """Ask until the gateway knows of a change to a key or its account."""
    while (await stage.gateway.ask("GET", "/v1/models", key=secret)).status != status:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.02)


REVOKED = r"Incorrect API key provided\. This key was revoked on \d{4}-\d\d-\d\d \d\d:\d\d UTC\. "


@pytest.mark.parametrize("verb", ["revoke", "suspend"])
async def test_who_is_shut_out_is_refused_but_a_running_stream_ends(
    stage: Stage, spare: Caller, verb: str
) -> None:
    """Refused is also a request whose body is on its way. A key that was used is told of its end."""
    model, go_on = stage.fresh("plain"), asyncio.Event()
    first, *rest = (chunked(sse(event)) for event in stream_chunks(["Hel", "lo"]))
    stage.alpha.play([*sse_start([]), first, Wait(go_on), *rest, chunked(DONE), LAST_CHUNK])
    headers = {"Content-Type": "application/json", "x-api-key": spare.key}
    late = request("POST", CHAT, headers, json.dumps(say(model)).encode())
    async with (
        stage.gateway.connect() as waiting,
        stage.chatting(say(model, stream=True), key=spare.key) as streaming,
    ):
        await waiting.send(late[:-10])
        await streaming.read_head()
        with open_books(stage.gateway.database) as books:
            if verb == "revoke":
                books.keys.revoke(spare.key_id)
            else:
                books.accounts.suspend(spare.account)
        await until_status(stage, spare.key, 401 if verb == "revoke" else 403)
        await waiting.send(late[-10:])
        refused = await waiting.read_all()
        go_on.set()
        reply = await streaming.read_all()
    assert read_stream(reply.body, model).text == "Hello"
    if verb == "revoke":
        assert re.match(REVOKED, check_error(refused, 401, "invalid_api_key"))
    else:
        check_error(refused, 403, "account_suspended")
        with open_books(stage.gateway.database) as books:
            books.accounts.resume(spare.account)
        await until_status(stage, spare.key, 200)
    assert len(stage.alpha.exchanges) == 1
