"""Prices of media, of tools, of hours, and those that follow the provider's bill; costs of the provider."""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil
from typing import Any, Final

import pytest

from tests.api.edges import DIALECTS, play, post, price_nano, read_receipt
from tests.ledger.kit import query
from tests.support import responses
from tests.support.chat import say
from tests.support.replies import (
    chunk,
    completion,
    json_reply,
    sse_reply,
    sse_start,
    stream_chunks,
    usage,
)
from tests.support.rows import each_row
from tests.support.running import Running
from tests.support.stage import Stage
from tests.support.upstream import End


@pytest.fixture(scope="module")
def running(priced: Running) -> Running:
    return priced


BILL: Final = {"cost": 4.12e-05, "is_byok": False, "cost_details": {"upstream_inference_cost": 1}}


@each_row("stream", [False, True])
@each_row(
    ("model", "tier", "bill", "costs"),
    [
        ("costly", None, {}, (11 * 100 + 7 * 300, None)),
        ("costly", "priority", BILL, (11 * 1000 + 7 * 3000, 41_200)),
        ("unknown", None, BILL, (None, 41_200)),
        ("unknown", None, {}, (None, None)),
    ],
)
async def test_the_cost_of_a_request_is_recorded(
    stage: Stage,
    model: str,
    tier: str | None,
    bill: dict[str, Any],
    costs: tuple[int | None, int | None],
    *,
    stream: bool,
) -> None:
    """Computed from its tokens at the cost of the tier that was served, and as reported."""
    told = usage(11, 7) | bill
    served = {} if tier is None else {"service_tier": tier}
    whole = completion("Hi", usage=told) | served
    chunks = [one | served for one in stream_chunks(["Hi"], told)]
    stage.alpha.play(sse_reply(chunks) if stream else json_reply(whole))
    body = say(f"{model}/0", stream=stream) | served
    if stream:
        body["stream_options"] = {"include_usage": True}
    reply = await stage.chat(body)
    assert reply.status == 200
    columns = "SELECT provider_cost_nano, reported_cost_nano FROM requests WHERE id = "
    row = query(stage.running.gateway.database, f"{columns}'{reply.request_id}'")
    assert row == [costs]
    assert b'"total_tokens":18' in reply.body.replace(b" ", b"")
    for name in BILL:
        assert json.dumps(name).encode() not in reply.body, "callers pay the operator's prices"
    receipt = await stage.gateway.ask("GET", f"/v1/receipts/{reply.request_id}", key=stage.key)
    assert [name for name in receipt.json if "provider_cost" in name or "reported" in name] == []


async def test_media_have_prices_of_their_own(stage: Stage) -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 500,
        "total_tokens": 1500,
        "prompt_tokens_details": {"audio_tokens": 600, "image_tokens": 100, "cached_tokens": 200},
        "completion_tokens_details": {"audio_tokens": 400, "image_tokens": 50},
    }
    play(stage, "chat", usage)
    part = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    reply = await stage.chat(
        {
            "model": "media/0",
            "messages": [{"role": "user", "content": [part]}],
            "modalities": ["text", "audio"],
            "audio": {"voice": "alloy", "format": "wav"},
            "max_tokens": 100,
        }
    )
    assert reply.status == 200
    heard = Fraction(600 * 30 + 100 * 3 + 400 * 60 + 50 * 40, 10**6)
    assert await stage.charge_nano(reply) == price_nano(
        input=100, cached=200, output=50, more=heard
    )
    receipt = await read_receipt(stage, reply)
    names = ("audio_input_tokens", "image_input_tokens", "audio_output_tokens")
    assert [receipt[name] for name in names] == [600, 100, 400]
    # A recording of 1,500 tokens at the least, and 100 tokens of output that may be audio.
    assert receipt["hold_nano"] >= ceil(Fraction(100 * 60, 10**6) * 10**9)


async def test_tools_are_charged_by_the_call(stage: Stage) -> None:
    items = [
        {"id": f"fs_{number}", "type": "file_search_call", "status": "completed"}
        for number in range(3)
    ]
    whole = responses.make_response("Hi.")
    stage.alpha.play(json_reply(whole | {"output": [*items, *whole["output"]]}))
    tools = [{"type": "file_search", "vector_store_ids": ["vs_1"]}, {"type": "x_search"}]
    reply = await post(stage, "responses", "tools-responses", tools=tools)
    assert reply.status == 200
    fee = Fraction("0.0075")
    assert await stage.charge_nano(reply) == price_nano(input=11, output=7, more=fee)
    receipt = await read_receipt(stage, reply)
    assert (receipt["tool_calls"], receipt["estimated"]) == ({"file_search": 3}, False)
    assert receipt["price"]["tools"]["file_search"]["price"] == "0.0025"
    # One call of each tool is expected.
    assert receipt["hold_nano"] >= ceil(Fraction("0.0075") * 10**9)


async def test_a_tool_whose_calls_are_not_told_is_charged_once(stage: Stage) -> None:
    play(stage, "chat", {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})
    reply = await post(stage, "chat", "tools-chat", tools=[{"google_maps": {}}])
    assert reply.status == 200
    fee = Fraction("0.025")
    assert await stage.charge_nano(reply) == price_nano(input=11, output=7, more=fee)
    receipt = await read_receipt(stage, reply)
    assert (receipt["tool_calls"], receipt["estimated"]) == ({"google_maps": 1}, True)


@each_row("dialect", DIALECTS)
@each_row(
    ("told", "bill"),
    [
        ({"cost": 0.1}, Fraction("0.1")),
        ({"cost_in_usd_ticks": 123_456_789}, Fraction("0.0123456789")),
    ],
)
async def test_a_price_may_be_the_providers_bill_times_a_factor(
    stage: Stage, dialect: str, told: dict[str, Any], bill: Fraction
) -> None:
    """A reply without a bill is charged by the prices beside the factor, and flagged."""
    for billed, cost, estimated in (
        (told, ceil(ceil(bill * 10**9) * Fraction("1.2")) + 10_000_000, False),
        ({}, 11 * 1000 + 7 * 5000 + 10_000_000, True),
    ):
        names = ("prompt_tokens", "completion_tokens") if dialect == "chat" else (
            "input_tokens", "output_tokens"
        )  # fmt: skip
        play(stage, dialect, {names[0]: 11, names[1]: 7} | billed)
        reply = await post(stage, dialect, f"billed-{dialect}")
        assert await stage.charge_nano(reply) == cost
        receipt = await read_receipt(stage, reply)
        assert (receipt["estimated"], receipt["price"]["by_bill"]) == (estimated, True)
        assert "reported" not in receipt["price"], "the factor and the cost would tell the bill"


async def test_the_bill_of_a_part_is_no_bill(stage: Stage) -> None:
    """A stream that breaks off is charged for what came, at the prices beside the factor."""
    told = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18, "cost": 9}
    begun = chunk({"role": "assistant", "content": "Hi"}, usage=told)
    stage.alpha.play([*sse_start([begun]), End.RST])
    reply = await stage.chat(say("billed-chat/0", stream=True))
    assert b"upstream_error" in reply.body
    assert b"cost" not in reply.body
    assert await stage.charge_nano(reply) == 11 * 1000 + 7 * 5000 + 10_000_000
    assert (await read_receipt(stage, reply))["estimated"]


async def test_a_recording_is_held_and_estimated_at_its_own_price(stage: Stage) -> None:
    """Also where the text beside it is to be cached, and in every way to name a recording."""
    wav = "UklG" * 200_000
    for part in (
        {"type": "input_audio", "input_audio": {"data": wav, "format": "wav"}},
        {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{wav}"}},
    ):
        play(stage, "chat", None)
        mark = {"type": "text", "text": "Hear.", "cache_control": {"type": "ephemeral"}}
        message = {"role": "user", "content": [mark, part]}
        reply = await stage.chat({"model": "media/0", "messages": [message], "max_tokens": 1})
        assert reply.status == 200
        receipt = await read_receipt(stage, reply)
        assert receipt["estimated"]
        assert receipt["audio_input_tokens"] == len(wav) // 400
        heard = ceil(Fraction(len(wav) // 400 * 30, 10**6) * 10**9)
        assert min(receipt["hold_nano"], await stage.charge_nano(reply)) >= heard


@each_row(("model", "cost_nano"), [("always", 18 * 7000), ("over", price_nano(input=11, output=7))])
async def test_a_price_may_depend_on_the_time_of_admission(
    stage: Stage, model: str, cost_nano: int
) -> None:
    play(stage, "chat", {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})
    reply = await stage.chat(say(f"{model}/0"))
    assert await stage.charge_nano(reply) == cost_nano
    rule = (await read_receipt(stage, reply))["price_rule"]
    assert (rule is None) == (model == "over")


async def test_prices_of_a_small_currency_are_exact(stage: Stage) -> None:
    """A million units a token: the receipt's JSON has integers beyond 64 bits."""
    play(stage, "chat", {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})
    body = {"model": "vast/0", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    reply = await stage.chat(body)
    assert reply.status == 200
    assert await stage.charge_nano(reply) == 5 * 10**15
    receipt = await read_receipt(stage, reply)
    assert receipt["price"]["input_nano"] == 10**21
