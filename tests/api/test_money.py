"""Money over HTTP: exact charges, no overspent balances, callers who leave."""

from __future__ import annotations

import asyncio
import itertools
import json
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
    chunk,
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
USAGES: dict[str, tuple[Any, Used]] = {
    "plain": (usage(11, 7), Used(11, 7)),
    "one token": (usage(1, 1), Used(1, 1)),
    "cached": (usage(1000, 50, cached_tokens=900), Used(1000, 50, 900)),
    "all cached": (usage(1000, 50, cached_tokens=1000), Used(1000, 50, 1000)),
    "reasoning outside (xAI)": (usage(12, 1, 303), Used(12, 291)),
    "large": (usage(999_999, 4096), Used(999_999, 4096)),
}


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
@pytest.mark.parametrize("name", USAGES)
async def test_charge_is_exact_to_the_nano_unit(
    stage: Stage, spare: Caller, name: str, *, stream: bool
) -> None:
    reported, used = USAGES[name]
    model = stage.fresh("plain")
    stage.alpha.play(
        sse_reply(stream_chunks(["Hi"], reported))
        if stream
        else json_reply(completion("Hi", usage=reported))
    )
    before = stage.books.balance_nano(spare.account)
    reply = await stage.chat(say(model, PROMPT, stream=stream), key=spare.key)
    assert reply.status == 200
    # Read without waiting: a reply that arrived whole is on the ledger.
    assert stage.books.balance_nano(spare.account) == before - used.cost_nano
    assert stage.books.cached_balance_nano(spare.account) == before - used.cost_nano
    row = await stage.settled(reply)
    assert (row.state, row.outcome, row.estimated) == ("posted", "complete", False)
    assert (row.input, row.cached_input, row.output) == (
        used.prompt - used.cached,
        used.cached,
        used.completion,
    )


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


async def test_last_usage_counts_and_none_are_added_up(stage: Stage) -> None:
    """Some providers report a cumulative usage in every chunk."""
    model = stage.fresh("plain")
    events = [
        event | {"usage": usage(5, number)}
        for number, event in enumerate(text_chunks(["a", "b", "c"]), start=1)
    ]
    stage.alpha.play(sse_reply(events))
    reply = await stage.chat(say(model, stream=True))
    read_stream(reply.body, model)
    assert await stage.charge_nano(reply) == Used(5, len(events)).cost_nano


@each_row("account", ["empty"])
@each_row("stream", [False, True])
async def test_no_balance_is_a_402(stage: Stage, account: str, *, stream: bool) -> None:
    key = stage.callers[account].key
    reply = await stage.chat(say("plain/0", stream=stream), key=key)
    told = check_error(reply, 402, "insufficient_quota")
    assert told.startswith("The balance is 0.00 USD. Top it up in the console under Billing")
    assert "retry-after" not in reply.headers
    assert stage.alpha.connections == 0
    assert (await stage.gateway.ask("GET", "/v1/models", key=key)).status == 200


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


async def test_revoked_key_is_refused(stage: Stage, spare: Caller) -> None:
    stage.alpha.always(json_reply(completion()))
    assert (await stage.chat(say(stage.fresh("plain")), key=spare.key)).status == 200
    verb = await stage.gateway.run("key", "revoke", spare.key_id)
    assert verb.code == 0, verb.err
    await until_status(stage.gateway.chat, spare.key, 401)


async def test_suspended_account_is_refused_and_resumed(stage: Stage, spare: Caller) -> None:
    stage.alpha.always(json_reply(completion()))
    for verb_name, status in (("suspend", 403), ("resume", 200)):
        verb = await stage.gateway.run("account", verb_name, spare.account)
        assert verb.code == 0, verb.err
        await until_status(stage.gateway.chat, spare.key, status)


async def test_new_key_works(stage: Stage, spare: Caller) -> None:
    stage.alpha.always(json_reply(completion()))
    verb = await stage.gateway.run("key", "add", spare.account, "--name", "second")
    assert verb.code == 0, verb.err
    new = verb.out.strip()
    stage.gateway.canaries.append(new.encode())
    assert (await stage.gateway.chat(new, say("plain/1"))).status == 200, "the very next request"


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


async def test_many_at_once_add_up(stage: Stage, spare: Caller) -> None:
    """Streams and JSON of different cost: the balance equals what the replies say."""
    numbers = itertools.count(1)
    model = stage.fresh("plain")

    def answer(exchange: Exchange) -> Script:
        tokens = usage(next(numbers), 1)
        if exchange.json.get("stream"):
            return sse_reply(stream_chunks(["Hi"], tokens))
        return json_reply(completion(usage=tokens))

    stage.alpha.always(answer)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(stage.chat(say(model, stream=number % 2 == 0), key=spare.key))
            for number in range(60)
        ]
    assert {task.result().status for task in tasks} == {200}
    total = sum(Used(number, 1).cost_nano for number in range(1, 61))
    assert stage.books.balance_nano(spare.account) == 100 * NANO - total
    assert len({task.result().request_id for task in tasks}) == 60


async def test_usage_of_tool_arguments_and_reasoning_is_estimated_too(stage: Stage) -> None:
    arguments = json.dumps({"city": "Köln am Rhein"}, ensure_ascii=False)
    call = {
        "index": 0,
        "id": "c",
        "type": "function",
        "function": {"name": "f", "arguments": arguments},
    }
    events = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "Let me think."}),
        chunk({"tool_calls": [call]}),
        chunk({}, finish="tool_calls"),
    ]
    stage.alpha.play(sse_reply(events))
    reply = await stage.chat(say(stage.fresh("plain"), PROMPT, stream=True))
    said = estimate("Let me think." + arguments)
    expected = Used(estimate_sent(stage.alpha.last.body), said)
    assert await stage.charge_nano(reply) == expected.cost_nano
