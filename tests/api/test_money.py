"""Money over HTTP: exact charges, no overspent balances, callers who leave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.money import format_amount
from tests.support.chat import (
    INPUT_PRICE,
    MAX_OUTPUT_TOKENS,
    OUTPUT_PRICE,
    Used,
    check_error,
    estimate,
    estimate_sent,
    read_stream,
    say,
)
from tests.support.client import Reply
from tests.support.replies import (
    DONE,
    LAST_CHUNK,
    USAGE,
    chunked,
    completion,
    json_reply,
    sse,
    sse_reply,
    sse_start,
    stream_chunks,
    text_chunks,
    usage,
)
from tests.support.rows import each_row
from tests.support.running import Launch
from tests.support.seed import NANO, Caller, Seed
from tests.support.stage import Stage
from tests.support.upstream import Exchange, Script, Wait
from tests.support.waiting import until

PROMPT = "Wie spät ist es?"


async def test_json_reply_tells_cost_and_balance(stage: Stage, spare: Caller) -> None:
    stage.alpha.play(json_reply(completion()))
    reply = await stage.chat(say(stage.fresh("plain")), key=spare.key)
    cost = Used(11, 7).cost_nano
    whole, fraction = reply.headers["x-gateway-cost"].split(".")
    assert int(whole) * NANO + int(fraction.ljust(9, "0")) == cost
    assert reply.headers["x-gateway-balance"].startswith("100.00")
    assert reply.json["usage"] == USAGE


@each_row("stream", [False, True])
async def test_reply_without_usage_is_estimated(stage: Stage, *, stream: bool) -> None:
    text = "Es ist fünf nach zwölf. 🕛"
    model = stage.fresh("plain")
    stage.alpha.play(
        sse_reply(text_chunks([text])) if stream else json_reply(completion(text, usage=None))
    )
    reply = await stage.chat(say(model, PROMPT, stream=stream))
    assert reply.status == 200
    expected = Used(estimate_sent(stage.alpha.last.body), estimate(text))
    assert await stage.charge_nano(reply) == expected.cost_nano
    assert (await stage.settled(reply)).estimated


async def test_spent_cap_of_a_key_is_a_402(stage: Stage) -> None:
    """The account has plenty, but the key may not spend more."""
    stage.alpha.always(json_reply(completion()))
    key = stage.callers["capped"].key
    body = say(stage.fresh("plain"), max_tokens=1)
    assert (await stage.chat(body, key=key)).status == 200
    told = check_error(await stage.chat(body, key=key), 402, "insufficient_quota")
    spent = format_amount(Used(11, 7).cost_nano)
    assert told.startswith(f"This key has spent {spent} USD and may spend 0.000001 USD. Raise")
    assert len(stage.alpha.exchanges) == 1


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
    verb = await running.gateway.run("account", "credit", "small", "0.5", "--note", "by hand")
    assert verb.code == 0, verb.err
    assert (await running.gateway.chat(key, say("plain/0"))).status == 200, "the very next request"
    assert running.books.balance_nano("small") == 1 - 2 * cost + NANO // 2


async def until_status(chat: Any, key: str, status: int) -> None:
    """Ask until the reply has that status."""
    while (await chat(key, say("plain/1"))).status != status:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.02)


HOLD_TOKENS = 100
CROWD = 200


async def test_a_crowd_cannot_spend_more_than_the_balance_holds(
    launch: Launch, stage: Stage
) -> None:
    """If 200 requests meet a balance of ten holds, at most 11 pass; the rest are told to wait."""
    prompt = "x" * 400
    hold = -(-(100 * INPUT_PRICE + HOLD_TOKENS * OUTPUT_PRICE) // 10**6)
    running = launch(seeds=(Seed("crowd", 10 * hold + hold // 2),))
    key = running.callers["crowd"].key
    gate = asyncio.Event()

    def answer(exchange: Exchange) -> Script:
        if exchange.json.get("stream"):
            return [Wait(gate), *sse_reply(stream_chunks(["Hi"], usage(100, 1)))]
        return [Wait(gate), *json_reply(completion(usage=usage(100, 1)))]

    stage.alpha.always(answer)
    replies: list[Reply] = []

    async def ask(number: int) -> None:
        body = say("plain/0", prompt, max_tokens=HOLD_TOKENS, stream=number % 2 == 0)
        replies.append(await running.gateway.chat(key, body))

    async def open_gate() -> None:
        """Open the gate once every request is either at the upstream or refused."""
        await until(lambda: len(replies) + stage.alpha.in_flight >= CROWD, "the crowd")
        gate.set()

    async with asyncio.TaskGroup() as group:
        for number in range(CROWD):
            group.create_task(ask(number))
        group.create_task(open_gate())
    served = [reply for reply in replies if reply.status == 200]
    refused = [reply for reply in replies if reply.status != 200]
    assert 10 <= stage.alpha.peak <= 11
    assert len(served) == len(stage.alpha.exchanges)
    for reply in refused:
        code = "rate_limit_exceeded" if reply.status == 429 else "insufficient_quota"
        check_error(reply, reply.status, code)
    assert {reply.status for reply in refused} <= {429, 402}
    spent = len(served) * Used(100, 1).cost_nano
    assert running.books.balance_nano("crowd") == 10 * hold + hold // 2 - spent


STREAMS = 60


@pytest.mark.parametrize("worth", [2.5, pytest.param(12.5, marks=pytest.mark.slow)])
async def test_a_crowd_that_uses_all_it_states_costs_less_than_one_request_too_much(
    launch: Launch, stage: Stage, worth: float
) -> None:
    """Of what a balance bears none is refused: the holds of the first are small on the larger one."""
    full = Used(100, MAX_OUTPUT_TOKENS).cost_nano
    running = launch(seeds=(Seed("crowd", int(worth * full)),))
    key = running.callers["crowd"].key
    gate = asyncio.Event()
    used = sse_reply(stream_chunks(["Hi"], usage(100, MAX_OUTPUT_TOKENS)))
    stage.alpha.always(lambda _: [Wait(gate), *used])
    body = say("plain/0", "x" * 200, max_tokens=MAX_OUTPUT_TOKENS, stream=True)
    replies: list[Reply] = []

    async def ask() -> None:
        replies.append(await running.gateway.chat(key, body))

    async with asyncio.TaskGroup() as group:
        for _ in range(STREAMS):
            group.create_task(ask())
        await until(lambda: len(replies) + stage.alpha.in_flight >= STREAMS, "the crowd")
        gate.set()
    assert int(worth) <= [reply.status for reply in replies].count(200) <= int(worth) + 1
    assert {reply.status for reply in replies} == {200, 429}
    assert -running.books.balance_nano("crowd") < full


ROUNDS = 2


@pytest.mark.slow
async def test_operator_credits_and_corrects_while_requests_are_charged(
    launch: Launch, stage: Stage
) -> None:
    """Two processes write the same balance; nothing is lost or doubled."""
    running = launch()
    gateway, caller = running.gateway, running.callers["rich"]
    stage.alpha.always(json_reply(completion(usage=usage(1000, 500))))
    over = asyncio.Event()
    served = 0

    async def spend() -> None:
        nonlocal served
        while not over.is_set():
            assert (await gateway.chat(caller.key, say("plain/0"))).status == 200
            served += 1

    async def mend() -> None:
        for number in range(ROUNDS):
            credit = ("account", "credit", "rich", "1.25", "--idempotency-key", f"k{number}")
            for words in (
                credit,
                credit,
                ("account", "correct", "rich", "-0.75", "--note", "x"),
            ):
                verb = await gateway.run(*words)
                assert verb.code == 0, verb.err
        over.set()

    before = running.books.balance_nano("rich")
    async with asyncio.TaskGroup() as group:
        group.create_task(mend())
        for _ in range(4):
            group.create_task(spend())
    expected = (
        before + ROUNDS * (NANO * 5 // 4 - NANO * 3 // 4) - served * Used(1000, 500).cost_nano
    )
    assert running.books.balance_nano("rich") == expected
    assert running.books.cached_balance_nano("rich") == expected
    assert served


async def test_suspended_account_is_refused_and_resumed(stage: Stage, spare: Caller) -> None:
    stage.alpha.always(json_reply(completion()))
    for verb_name, status in (("suspend", 403), ("resume", 200)):
        verb = await stage.gateway.run("account", verb_name, spare.account)
        assert verb.code == 0, verb.err
        await until_status(stage.gateway.chat, spare.key, status)


async def test_running_stream_of_a_revoked_key_ends_normally(stage: Stage, spare: Caller) -> None:
    go_on = asyncio.Event()
    model = stage.fresh("plain")
    first, *rest = (chunked(sse(event)) for event in stream_chunks(["Hel", "lo"]))
    stage.alpha.play([*sse_start([]), first, Wait(go_on), *rest, chunked(DONE), LAST_CHUNK])
    stage.alpha.always(json_reply(completion()))
    async with stage.chatting(say(model, stream=True), key=spare.key) as call:
        await call.read_head()
        assert (await stage.gateway.run("key", "revoke", spare.key_id)).code == 0
        await until_status(stage.gateway.chat, spare.key, 401)
        go_on.set()
        reply = await call.read_all()
    assert read_stream(reply.body, model).text == "Hello"
