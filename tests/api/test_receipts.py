"""Receipts and budgets, as callers see them."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from gateway.ledger.alert_records import RefusedView
from gateway.ledger.opening import open_books
from tests.support.chat import Used, check_error, check_messages_error, say
from tests.support.replies import completion, error_reply, json_reply, sse, sse_start, text_chunks
from tests.support.running import Launch
from tests.support.seed import NANO, Caller, Seed
from tests.support.stage import Stage
from tests.support.upstream import Wait
from tests.support.waiting import until

COST_NANO = Used(11, 7).cost_nano
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def fetch(stage: Stage, request_id: str) -> dict[str, Any]:
    reply = await stage.gateway.ask("GET", f"/v1/receipts/{request_id}", key=stage.key)
    receipt: dict[str, Any] = reply.json
    assert (reply.status, receipt["request_id"]) == (200, request_id)
    return receipt


async def test_receipt_tells_what_was_corrected(stage: Stage) -> None:
    """The charge stays as it was; corrections of other requests are not shown."""
    stage.alpha.always(json_reply(completion()))
    one, other = [(await stage.chat(say(stage.fresh("plain")))).request_id for _ in range(2)]
    assert (await fetch(stage, one))["corrections"] == []
    with open_books(stage.gateway.database) as books:
        for amount_nano, note in ((7 * NANO // 4, "half of it came"), (-NANO, "too much"), (0, "")):
            about = one if note else other
            books.entries.correct("rich", amount_nano, note=note or "n", request_id=about)
    receipt = await fetch(stage, one)
    assert receipt["cost_nano"] == COST_NANO
    first, second = receipt["corrections"]
    assert ISO.fullmatch(first.pop("created"))
    assert first == {"amount": "1.75", "amount_nano": 7 * NANO // 4, "note": "half of it came"}
    assert (second["amount"], second["amount_nano"], second["note"]) == ("-1.00", -NANO, "too much")
    assert [entry["note"] for entry in (await fetch(stage, other))["corrections"]] == ["n"]


async def test_receipt_of_a_failed_request_is_there_at_once(stage: Stage) -> None:
    """Read right after the error, the receipt shows the ending, not `pending`."""
    for _ in range(5):
        stage.alpha.play(error_reply(500))
        reply = await stage.chat(say(stage.fresh("plain")))
        assert (await fetch(stage, reply.request_id))["outcome"] == "upstream_error"


async def test_receipt_of_a_request_in_flight_is_pending(stage: Stage) -> None:
    go_on = asyncio.Event()
    rest = [sse(b"data: [DONE]\n\n")]
    stage.alpha.play([*sse_start(text_chunks(["a"])), Wait(go_on), *rest])
    model = stage.fresh("plain")
    async with stage.chatting(say(model, stream=True)) as call:
        await call.read_head()
        receipt = await fetch(stage, call.headers["x-request-id"])
        go_on.set()
    assert (receipt["state"], receipt["outcome"]) == ("pending", "pending")
    assert receipt["provider"] == f"{model.replace('/', '-')}-alpha"
    unknown = [receipt[name] for name in ("ended_by", "status", "attempts", "first_byte_ms")]
    assert [*unknown, receipt["ended"]] == [None] * 5
    assert (receipt["cost_nano"], receipt["hold_nano"] > 0) == (0, True)


async def test_a_refused_request_is_told_to_its_key(stage: Stage, spare: Caller) -> None:
    refused = await stage.chat(say("no/such-model"), key=spare.key)
    assert refused.status == 400
    url = f"/v1/receipts/{refused.request_id}"

    def find() -> list[RefusedView]:
        with open_books(stage.gateway.database) as books:
            kept = books.observations.read_refused(None, 0, 100)
        return [one for one in kept if one.request_id == refused.request_id]

    await until(find, "the refusal, which is written some seconds later")
    told = (await stage.gateway.ask("GET", url, key=spare.key)).json
    assert ISO.fullmatch(told.pop("at"))
    assert told == {
        "request_id": refused.request_id,
        "state": "refused",
        "code": "model_not_found",
        "model": "no/such-model",
    }
    check_error(await stage.gateway.ask("GET", url, key=stage.key), 404, "unknown_url")


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
