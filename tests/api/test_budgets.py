"""Budgets as callers meet them: refused once spent, told by `/v1/key`, in force at once."""

from __future__ import annotations

import asyncio
import re

from tests.api.test_own_key import fetch
from tests.support.chat import Used, check_error, check_messages_error, say
from tests.support.replies import completion, json_reply, sse, sse_start, text_chunks
from tests.support.running import Launch
from tests.support.seed import Seed
from tests.support.stage import Stage
from tests.support.upstream import Wait

COST_NANO = Used(11, 7).cost_nano


async def test_a_spent_budget_is_a_402_that_says_when_it_resets(
    launch: Launch, stage: Stage
) -> None:
    """Both dialects; a higher budget is in force at the very next request."""
    running = launch(seeds=(Seed("team"),))
    key = running.callers["team"]
    stage.alpha.always(json_reply(completion()))
    for words in (
        ("budget", "add", "team", "research", "0.000000001/month"),
        ("key", "edit", key.key_id, "--budget", "research"),
    ):
        assert (await running.gateway.run(*words)).code == 0
    assert (await running.gateway.chat(key.key, say("plain/0"))).status == 200
    refused = await running.gateway.chat(key.key, say("plain/0"))
    check_error(refused, 402, "insufficient_quota")
    assert re.fullmatch(
        r"The budget 'research' of 0\.000000001 \w{3} a month is spent\."
        r" It resets at \d{4}-\d\d-01 00:00 UTC\. Raise it or use another key\.",
        refused.json["error"]["message"],
    )
    assert "retry-after" not in refused.headers
    messages = await running.gateway.ask(
        "POST", "/v1/messages", key=key.key, headers={"anthropic-version": "2023-06-01"}, body=b"{}"
    )
    check_messages_error(messages, 402, "billing_error")
    told = (await running.gateway.ask("GET", "/v1/key", key=key.key)).json["budget"]
    assert (told["name"], told["period"], told["amount_nano"]) == ("research", "month", 1)
    assert (told["spent_nano"], told["remaining_nano"]) == (COST_NANO, 0)
    raised = await running.gateway.run("budget", "edit", "research", "5/month")
    assert raised.code == 0, raised.err
    assert (await running.gateway.chat(key.key, say("plain/0"))).status == 200
    assert (await running.gateway.run("audit")).code == 0


async def test_a_budget_that_others_hold_is_a_429(launch: Launch, stage: Stage) -> None:
    running = launch(seeds=(Seed("lone"),))
    key = running.callers["lone"]
    edited = await running.gateway.run("key", "edit", key.key_id, "--budget", "0.000000001/day")
    assert edited.code == 0, edited.err
    go_on = asyncio.Event()
    stage.alpha.play([*sse_start(text_chunks(["a"])), Wait(go_on), sse(b"data: [DONE]\n\n")])
    async with running.gateway.chatting(key.key, say("plain/0", stream=True)) as call:
        await call.read_head()
        refused = await running.gateway.chat(key.key, say("plain/0"))
        go_on.set()
    check_error(refused, 429, "rate_limit_exceeded")
    assert "The rest of this key's budget is held" in refused.json["error"]["message"]
    assert float(refused.headers["retry-after"]) >= 1


async def test_a_key_without_a_budget_tells_so(stage: Stage) -> None:
    assert (await fetch(stage, stage.callers["rich"].key))["budget"] is None
