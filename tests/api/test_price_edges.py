"""Prices of media, of tools, of hours, and those that follow the provider's bill."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import ceil
from typing import Any

import pytest

from tests.api.edges import (
    DIALECTS,
    KINDS,
    play,
    post,
    price_nano,
    read_receipt,
)
from tests.api.scene import RICH
from tests.support import responses
from tests.support import running as runs
from tests.support.chat import say
from tests.support.config import Places
from tests.support.replies import chunk, json_reply, sse_start
from tests.support.rows import each_row
from tests.support.running import Running
from tests.support.stage import Stage
from tests.support.upstream import End


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, places: Places) -> Iterator[Running]:
    started = runs.start(tmp_path_factory.mktemp("edges"), places, seeds=RICH, kinds=KINDS)
    yield started
    started.prove_books()
    started.gateway.stop()


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
    for usage, cost, estimated in (
        (told, ceil(ceil(bill * 10**9) * Fraction("1.2")) + 10_000_000, False),
        ({}, 11 * 1000 + 7 * 5000 + 10_000_000, True),
    ):
        names = ("prompt_tokens", "completion_tokens") if dialect == "chat" else (
            "input_tokens", "output_tokens"
        )  # fmt: skip
        play(stage, dialect, {names[0]: 11, names[1]: 7} | usage)
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
