"""Prices, holds and charges of whole requests: what was served is paid, and nothing passes unpriced."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from gateway.admin import keys
from gateway.ledger.key_records import NewKey
from gateway.ledger.opening import open_books
from gateway.money import NANO
from tests.api.edges import DIALECTS, play, post, price_nano, read_receipt
from tests.support.chat import HOLD_OUTPUT_TOKENS, Used, check_error, estimate_sent, say
from tests.support.messages import ask, make_message
from tests.support.process import MESSAGES
from tests.support.replies import (
    chunk,
    chunked,
    completion,
    json_reply,
    sse,
    sse_reply,
    sse_start,
    stream_chunks,
    usage,
)
from tests.support.rows import each_row
from tests.support.running import Running
from tests.support.stage import Stage
from tests.support.upstream import End, Wait
from tests.support.waiting import until

RULED = "ruled/0"


@pytest.fixture(scope="module")
def running(priced: Running) -> Running:
    return priced


SERVED = [
    ("priority", "priority", "service_tier priority", 11 * 2_000 + 7 * 4_000, False),
    ("priority", None, "service_tier priority", 11 * 2_000 + 7 * 4_000, True),
    ("priority", "default", None, None, False),
    ("auto", "priority", "service_tier priority", 11 * 2_000 + 7 * 4_000, False),
    ("auto", None, None, None, False),
    (None, "priority", "service_tier priority", 11 * 2_000 + 7 * 4_000, False),
]


@each_row("stream", [False, True])
@each_row(("asked", "served", "rule", "cost_nano", "estimated"), SERVED)
async def test_charged_is_the_tier_that_was_served(
    stage: Stage,
    asked: str | None,
    served: str | None,
    rule: str | None,
    cost_nano: int | None,
    *,
    estimated: bool,
    stream: bool,
) -> None:
    tier = {} if served is None else {"service_tier": served}
    whole = completion("Hi", usage=usage(11, 7)) | tier
    chunks = [one | tier for one in stream_chunks(["Hi"], usage(11, 7))]
    stage.alpha.play(sse_reply(chunks) if stream else json_reply(whole))
    body = say(RULED, stream=stream) | ({} if asked is None else {"service_tier": asked})
    reply = await stage.chat(body)
    assert reply.status == 200
    expected = Used(11, 7).cost_nano if cost_nano is None else cost_nano
    assert await stage.charge_nano(reply) == expected
    receipt = await read_receipt(stage, reply)
    assert (receipt["price_rule"], receipt["estimated"]) == (rule, estimated)
    assert receipt["price"]["input_nano"] == (137_000_500 if rule is None else 2 * NANO)


async def test_a_long_input_has_its_price_for_all_tokens(stage: Stage) -> None:
    stage.alpha.play(json_reply(completion("Hi", usage=usage(5001, 7, cached_tokens=4000))))
    reply = await stage.chat(say(RULED))
    assert await stage.charge_nano(reply) == 5001 * 1_000 + 7 * 3_000
    receipt = await read_receipt(stage, reply)
    assert receipt["price_rule"] == "input_above 5000"


async def test_searches_are_charged_one_by_one(stage: Stage) -> None:
    """Twenty a thousand, rounded up with the rest."""
    used = {"input_tokens": 6000, "output_tokens": 7, "server_tool_use": {"web_search_requests": 3}}
    stage.alpha.play(json_reply(make_message(usage=used)))
    tools = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 5}]
    reply = await stage.gateway.post(MESSAGES, stage.key, ask("searching/0", tools=tools))
    assert reply.status == 200
    assert await stage.charge_nano(reply) == 6000 * 1_000 + 7 * 3_000 + 3 * 20_000_000
    receipt = await read_receipt(stage, reply)
    assert (receipt["web_searches"], receipt["price"]["web_search"]) == (3, "20.00")


@each_row(
    ("fields", "output_tokens"),
    [
        ({"max_tokens": 4000, "max_completion_tokens": 0}, HOLD_OUTPUT_TOKENS),
        ({"max_tokens": 10, "max_completion_tokens": 20}, 20),
        ({"max_tokens": 0}, HOLD_OUTPUT_TOKENS),
        ({"max_tokens": 10, "n": 3}, 30),
    ],
)
async def test_the_largest_limit_counts_and_0_is_none(
    stage: Stage, fields: dict[str, Any], output_tokens: int
) -> None:
    stage.alpha.play(json_reply(completion("Hi", usage=usage(11, 7))))
    reply = await stage.chat(say("plain/0", **fields))
    held = stage.books.hold_nano(reply.request_id)
    sent = estimate_sent(stage.alpha.last.body)
    assert held == Used(sent, output_tokens).cost_nano


async def test_text_in_a_document_is_held_like_any_other(stage: Stage) -> None:
    """A text document, a schema or a prediction is no smaller than a message."""
    text = "word " * 20_000
    source = {"type": "text", "media_type": "text/plain", "data": text}
    stage.alpha.play(json_reply(make_message()), json_reply(make_message()))
    document = ask("plain-messages/0") | {
        "messages": [{"role": "user", "content": [{"type": "document", "source": source}]}]
    }
    held = []
    for body in (document, ask("plain-messages/0", text)):
        reply = await stage.gateway.post(MESSAGES, stage.key, body)
        assert reply.status == 200
        held.append(stage.books.hold_nano(reply.request_id))
    assert held[0] == pytest.approx(held[1], rel=0.01)
    stage.alpha.play(json_reply(completion()))
    reply = await stage.chat(
        say("plain/0", max_tokens=100, prediction={"type": "content", "content": text})
    )
    assert stage.books.hold_nano(reply.request_id) == pytest.approx(held[1], rel=0.1)


async def add_caller(stage: Stage, name: str, credit_nano: int) -> NewKey:
    """Add an account with a key while the gateway serves."""
    with open_books(stage.running.gateway.database) as books:
        books.accounts.create(name, credit_nano=credit_nano)
        made = keys.add_key(books, name)
    while (await stage.gateway.ask("GET", "/v1/models", key=made.secret)).status != 200:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.02)
    return made


async def test_a_hold_is_raised_as_soon_as_more_is_known(stage: Stage) -> None:
    """So that others on the same balance are refused in time."""
    caller = await add_caller(stage, "thin", NANO)
    reported = chunk({"content": "Hi"}) | {"usage": usage(150_000, 1)}
    begun = sse_start([reported])
    go_on = asyncio.Event()
    end = [chunked(sse(one)) for one in stream_chunks([], usage(150_000, 1))]
    stage.alpha.play([*begun, Wait(go_on), *end, *sse_reply([])[1:]])
    async with stage.chatting(say("dear/0", stream=True), key=caller.secret) as call:
        await call.read_until(b"Hi")
        assert call.status == 200
        refused = await stage.chat(say("plain/0"), key=caller.secret)
        check_error(refused, 429, "rate_limit_exceeded")
        go_on.set()
        await call.read_all()
    request_id = call.headers["x-request-id"]
    assert await stage.books.charge_nano(request_id) == 150_001 * NANO // 1000


async def test_a_reply_that_is_cut_short_is_charged_and_not_to_be_tried_again(stage: Stage) -> None:
    cut = completion("Hallo", usage=usage(11, 7))
    cut["choices"][0]["finish_reason"] = None
    stage.alpha.play(json_reply(cut))
    reply = await stage.chat(say("plain/0"))
    check_error(reply, 502, "upstream_error")
    assert reply.headers["x-should-retry"] == "false"
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano
    receipt = await read_receipt(stage, reply)
    assert (receipt["outcome"], receipt["status"]) == ("upstream_error", 502)


@each_row("stream", [False, True])
async def test_a_reply_too_large_to_deliver_is_charged_and_not_to_be_tried_again(
    stage: Stage, *, stream: bool
) -> None:
    mebibytes = 9 if stream else 65
    head = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"padding":"'
    stage.alpha.play([head, *([b"x" * (1 << 20)] * mebibytes), End.FIN])
    reply = await stage.chat(say("large/0", stream=stream))
    check_error(reply, 502, "upstream_error")
    assert reply.headers["x-should-retry"] == "false"
    expected = Used(estimate_sent(stage.alpha.last.body), 1600)
    assert await stage.charge_nano(reply) == expected.cost_nano


async def test_missing_usage_is_logged_once_an_hour(stage: Stage) -> None:
    model = "plain-messages/0"
    message = make_message(usage={})
    stage.alpha.play(json_reply(message), json_reply(message))
    for _ in range(2):
        reply = await stage.gateway.post(MESSAGES, stage.key, ask(model))
        assert (reply.status, (await stage.settled(reply)).estimated) == (200, True)
    line = "reports no usage, or an implausible one, for model plain-messages/0"
    await until(lambda: line in stage.gateway.log, "a warning")
    assert stage.gateway.log.count(line) == 1


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
