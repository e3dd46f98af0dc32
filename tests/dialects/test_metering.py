"""Metering that cannot be avoided: what counts as delivered, and as a report."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.base.errors import UndeliverableReply, UpstreamError
from gateway.base.money import Tokens
from gateway.base.prices import BillOptions, BillTerms
from gateway.base.usage import Expected, UsageLimits
from gateway.dialects.wire.records import ReplyContext
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    USAGE,
    Json,
    Played,
    choice,
    chunk,
    dump,
    event,
    events,
    make_context,
    play,
    role,
    stop,
    text,
)
from tests.dialects.messages.kit import frame, open_block, start
from tests.support.formats import EXCHANGES
from tests.support.rows import each_row


def hear(*parts: bytes, caller: str = "chat", context: ReplyContext | None = None) -> Played:
    return play(EXCHANGES[caller]["chat"].open_stream(context or make_context(usage=True)), parts)


def hear_message(*told: Json, context: ReplyContext | None = None) -> Played:
    context = context or make_context(usage=True)
    return play(EXCHANGES["messages"]["messages"].open_stream(context), [frame(*told)])


def bound(most: int, asked: BillOptions | None = None) -> ReplyContext:
    limits = UsageLimits(10**6, 10**6, most)
    expected = Expected(INPUT_ESTIMATE, limits, asked or BillOptions())
    return replace(make_context(usage=True), expected=expected)


@each_row(
    "block",
    [
        {"type": "redacted_thinking", "data": "x"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
    ],
)
def test_a_block_that_begins_with_something_is_delivered(block: Json) -> None:
    assert hear_message(
        start(), {"type": "content_block_start", "index": 0, "content_block": block}
    ).delivered
    assert not hear_message(start(), open_block(0, text="")).delivered


@each_row(
    ("tiers", "used", "tier"),
    [
        (["priority", None], None, "priority"),
        (["priority", "auto"], None, "priority"),
        (["default", "priority"], "flex", "priority"),
        ([None], "flex", "flex"),
        (["auto"], "flex", "flex"),
        ([None], None, ""),
    ],
)
def test_the_tier_of_a_chat_reply_is_the_last_that_was_named(
    tiers: list[str | None], used: str | None, tier: str
) -> None:
    usage = USAGE | {"service_tier": used}
    pipeline = EXCHANGES["chat"]["chat"].open_stream(make_context())
    said = [chunk(text("a"), service_tier=one) for one in tiers]
    pipeline.feed(events(*said, chunk(stop()), chunk(usage=usage)) + DONE)
    assert pipeline.measure().terms == BillTerms(tier)
    reply = {"choices": [choice({}, "stop")], "usage": usage, "service_tier": tiers[-1]}
    if len(tiers) == 1:
        whole = EXCHANGES["chat"]["chat"].read_reply(dump(reply), make_context()).metered
        assert whole.terms == BillTerms(tier)


def test_no_estimate_is_above_the_limit() -> None:
    """A provider that puts 50 MiB on one line is not paid for by a caller of ten tokens."""
    said = events(chunk(role()), chunk(text("a" * 400_000)))
    assert hear(said, context=bound(10)).tokens == Tokens(INPUT_ESTIMATE, output=10)
    oversized = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"a" * (2 << 20)
    assert hear(said, oversized, context=bound(10)).tokens.output == 10


@each_row("caller", ["chat", "messages"])
def test_a_page_is_no_stream(caller: str) -> None:
    """It begins like no event, so nothing of it is passed on, and nothing is owed."""
    page = b"<!DOCTYPE html><html>" + b"<p>Sign in to continue</p>" * 60_000
    context = make_context(usage=True) if caller == "messages" else None
    heard = hear(page, caller=caller, context=context)
    assert (heard.out, heard.delivered, heard.complete) == (b"", False, False)
    assert (
        caller == "messages"
        or heard.failure == "The upstream provider's reply is no stream of events."
    )


@each_row("caller", ["chat", "messages"])
def test_a_reply_of_nothing_is_a_failure_and_free(caller: str) -> None:
    """Without content, finish reason and usage there is nothing to charge for."""
    context = make_context(usage=True) if caller == "messages" else make_context()
    heard = hear(event(chunk(role())) + DONE, caller=caller, context=context)
    assert (heard.complete, heard.delivered) == (False, False)
    assert heard.failure == "The upstream's stream ended before it began."
    reply = {"choices": [{"index": 0, "message": {"role": "assistant", "content": ""}}]}
    exchange = EXCHANGES[caller]["chat"]
    with pytest.raises(UpstreamError, match="is empty") as caught:
        exchange.read_reply(dump(reply), context)
    assert not isinstance(caught.value, UndeliverableReply)
    assert exchange.read_reply(dump({**reply, "usage": USAGE}), context).failure
    finished = events(chunk(role()), chunk(stop())) + DONE
    assert hear(finished, caller=caller, context=context).complete


def slice_up(*pieces: bytes) -> list[bytes]:
    """Cut a stream so that an oversized event is not whole in any read."""
    data = b"".join(pieces)
    return [data[at : at + 50_000] for at in range(0, len(data), 50_000)]


BIG_PICTURE = {"images": ["A" * (2 << 20)]}


@each_row("begin", [b"", b"\n", b"\r\n\r\n"])
def test_a_first_event_that_is_oversized_begins_a_stream(begin: bytes) -> None:
    said = event(chunk(choice(BIG_PICTURE)))
    heard = hear(*slice_up(begin, said, event(chunk(usage=USAGE)), DONE))
    assert (heard.complete, heard.failure) == (True, None)
    assert (heard.tokens, heard.estimated) == (Tokens(9, output=3), False)
    assert hear(*slice_up(begin, said)).tokens.output == 1600, "without a report"


def test_the_end_of_an_oversized_event_is_read() -> None:
    usage = {**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}
    last = event(chunk(choice(BIG_PICTURE, finish="stop"), usage=usage))
    heard = hear(*slice_up(event(chunk(role())), last, DONE))
    assert (heard.complete, heard.tokens) == (True, Tokens(5, 4, output=3))
    assert not heard.estimated
    assert heard.out.count(b"finish_reason") == 2
    fake = "A" * (2 << 20) + '"usage":{"prompt_tokens":1},"finish_reason":"stop"'
    heard = hear(*slice_up(event(chunk(choice({"content": fake})))))
    assert (heard.complete, heard.tokens) == (False, Tokens(INPUT_ESTIMATE, output=1600))


def test_an_oversized_event_that_is_cut_passes_to_its_last_byte() -> None:
    cut = event(chunk(choice(BIG_PICTURE)))[:-9]
    assert hear(*slice_up(cut)).out == cut


def call_function(arguments: str, **function: str) -> Json:
    called = {"index": 0, "id": "c", "function": {"arguments": arguments, **function}}
    return chunk(choice({"tool_calls": [called]}))


PICTURE = chunk(choice({"content": "a" * 40, "images": ["A"]}))


@each_row("said", [call_function("a" * 40), PICTURE])
def test_what_a_translator_cannot_write_is_owed_by_the_usage_behind_it(said: Json) -> None:
    told = events(chunk(role()), said, chunk(stop()))
    for tail, tokens in (
        (events(chunk(usage=USAGE)) + DONE, Tokens(9, output=10)),
        (event(chunk(usage={**USAGE, "completion_tokens": 30})), Tokens(9, output=30)),
        (DONE, Tokens(INPUT_ESTIMATE, output=10)),
        (b"", Tokens(INPUT_ESTIMATE, output=10)),
    ):
        pipeline = EXCHANGES["messages"]["chat"].open_stream(make_context(usage=True))
        pipeline.feed(told)
        assert pipeline.failure is None
        pipeline.feed(tail)
        pipeline.end()
        assert isinstance(pipeline.failure, UndeliverableReply)
        assert (pipeline.complete, pipeline.measure().tokens) == (False, tokens)


def test_what_a_translator_cannot_write_ends_a_stream_that_is_cut() -> None:
    assert hear(events(chunk(role()), PICTURE), caller="messages").failure is not None


def test_arguments_that_wait_are_counted() -> None:
    pipeline = EXCHANGES["messages"]["chat"].open_stream(make_context(usage=True))
    pipeline.feed(events(chunk(role()), call_function("a" * 40, name="f")))
    assert pipeline.measure().tokens.output == 10
