"""Money at the edges: no work that nobody pays, no count misread."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.api.edges import (
    DIALECTS,
    play,
    post,
    price_nano,
    read_receipt,
)
from tests.support.chat import say
from tests.support.rows import each_row
from tests.support.running import Running
from tests.support.stage import Stage


@pytest.fixture(scope="module")
def running(priced: Running) -> Running:
    return priced


@each_row("most", [10**15, 10_001, -1, "5", 1.5, True])
async def test_a_field_that_multiplies_the_hold_is_bounded(stage: Stage, most: object) -> None:
    """The provider is not asked: nobody could be charged for what it did."""
    before = len(stage.alpha.exchanges)
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": most}
    reply = await post(stage, "messages", "messages", tools=[tool])
    assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request_error")
    assert "tools.0.max_uses" in reply.json["error"]["message"]
    assert len(stage.alpha.exchanges) == before


async def test_a_hold_that_no_ledger_can_write_is_a_400(stage: Stage) -> None:
    before = len(stage.alpha.exchanges)
    body = say("vast/0", "word " * 60_000, max_tokens=4096, n=128)
    reply = await stage.chat(body)
    assert reply.status == 400
    assert "may cost more than the gateway can hold" in reply.json["error"]["message"]
    assert len(stage.alpha.exchanges) == before


@each_row("field", ["deferred", "background"])
@each_row("dialect", DIALECTS)
async def test_a_reply_to_be_fetched_later_is_refused(
    stage: Stage, dialect: str, field: str
) -> None:
    before = len(stage.alpha.exchanges)
    reply = await post(stage, dialect, dialect, **{field: True})
    assert reply.status == 400
    assert f"'{field}'" in reply.json["error"]["message"]
    assert len(stage.alpha.exchanges) == before


BILLED_FIELDS: Final[dict[str, object]] = {
    "models": ["dear/model"],
    "provider": {"order": ["dear"]},
    "plugins": [{"id": "web"}],
    "route": "fallback",
    "preset": "dear",
    "transforms": ["middle-out"],
    "fallbacks": [{"model": "dear"}],
    "web_search_options": {},
    "search_parameters": {"mode": "on"},
    "enable_search": True,
    "enable_code_interpreter": True,
    "speed": "fast",
    "inference_geo": "us",
    "service_tier": "priority",
    "data_sources": [{}],
    "compound_custom": {"models": {}},
    "providerOptions": {"gateway": {"models": ["dear"]}},
    "google": {"cached_content": "cachedContents/1"},
    "extra_body": {"google": {"cached_content": "cachedContents/1"}},
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "wav"},
    "container": {"skills": []},
    "mcp_servers": [{"type": "url", "url": "https://x.example", "name": "x"}],
}
BOUND_FIELDS: Final = {"web_search_options"}
"""These have a price here."""


@each_row("field", sorted(BILLED_FIELDS.keys() - BOUND_FIELDS))
@each_row("dialect", DIALECTS)
async def test_what_changes_the_bill_is_refused_in_every_dialect(
    stage: Stage, dialect: str, field: str
) -> None:
    before = len(stage.alpha.exchanges)
    reply = await post(stage, dialect, dialect, **{field: BILLED_FIELDS[field]})
    assert reply.status == 400, reply.body.decode()
    assert field in reply.json["error"]["message"]
    assert len(stage.alpha.exchanges) == before


async def test_recordings_without_a_price_are_refused(stage: Stage) -> None:
    part = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
    said = [{"role": "user", "content": [{"type": "text", "text": "Hear"}, part]}]
    reply = await stage.chat({"model": "chat/0", "messages": said})
    assert reply.status == 400
    assert "messages[0].content[1]" in reply.json["error"]["message"]
    heard = {"role": "user", "content": [part]}
    reply = await post(stage, "responses", "responses", input=[heard])
    assert reply.status == 400
    assert "input[0].content[0]" in reply.json["error"]["message"]


# ---- Counts ------------------------------------------------------------------------------------


CHAT_USAGES: Final = [
    (
        {
            "prompt_tokens": 1000,
            "completion_tokens": 10,
            "total_tokens": 1010,
            "cached_tokens": 900,
        },
        price_nano(input=100, cached=900, output=10),
    ),
    (
        {
            "prompt_tokens": 1000,
            "completion_tokens": 10,
            "total_tokens": 1010,
            "cache_creation_input_tokens": 600,
            "cache_read_input_tokens": 300,
        },
        price_nano(input=100, cached=300, written=600, output=10),
    ),
]


@each_row("caller", DIALECTS)
@each_row(("usage", "cost_nano"), CHAT_USAGES)
async def test_cached_and_written_tokens_have_their_own_price(
    stage: Stage, caller: str, usage: dict[str, Any], cost_nano: int
) -> None:
    """Whichever dialect the caller speaks; and the caller is shown what is charged."""
    play(stage, "chat", usage)
    reply = await post(stage, caller, "chat")
    assert reply.status == 200
    assert await stage.charge_nano(reply) == cost_nano
    receipt = await read_receipt(stage, reply)
    assert receipt["cost_nano"] == cost_nano
    told = reply.json["usage"]
    shown = told.get("prompt_tokens", told.get("input_tokens", 0))
    if caller == "messages":
        shown += told["cache_read_input_tokens"] + told["cache_creation_input_tokens"]
    classes = ("input_tokens", "cached_input_tokens", "cache_write_tokens")
    assert shown == sum(receipt[name] for name in classes)


async def test_writes_for_an_hour_are_charged_and_held_as_such(stage: Stage) -> None:
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 10,
        "total_tokens": 1010,
        "prompt_tokens_details": {"cache_write_tokens": 800},
    }
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    said = [{"role": "user", "content": [{"type": "text", "text": "word " * 400, **mark}]}]
    for marked in (True, False):
        play(stage, "chat", usage)
        text = said if marked else [{"role": "user", "content": "word " * 400}]
        reply = await stage.chat({"model": "chat/0", "messages": text, "max_tokens": 10})
        written = {"hour": 800} if marked else {"written": 800}
        expected = price_nano(input=200, output=10, **written)
        assert await stage.charge_nano(reply) == expected
        receipt = await read_receipt(stage, reply)
        assert receipt["hold_nano"] > (price_nano(hour=500) if marked else price_nano(input=500))
        assert receipt["estimated"] is marked


async def test_the_half_that_cannot_be_is_estimated(stage: Stage) -> None:
    play(stage, "chat", {"prompt_tokens": -4, "completion_tokens": 321, "total_tokens": 317})
    reply = await stage.chat(say("chat/0"))
    receipt = await read_receipt(stage, reply)
    assert (receipt["output_tokens"], receipt["estimated"]) == (321, True)
    assert receipt["input_tokens"] > 0
    assert await stage.charge_nano(reply) == price_nano(input=receipt["input_tokens"], output=321)
