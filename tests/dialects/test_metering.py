"""Metering that cannot be avoided: what counts as delivered, and as a report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.exchanges import EXCHANGES
from gateway.errors import UndeliverableReply, UpstreamError
from gateway.money import Tokens
from gateway.prices import BillTerms
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    check_stream,
    choice,
    chunk,
    dump,
    event,
    events,
    make_context,
    read_chunks,
    role,
    stop,
    text,
)
from tests.dialects.chat_over_messages.kit import STOP, close, open_block, say, start
from tests.dialects.hearing import CALL, USAGE, bound, hear, hear_message
from tests.dialects.messages_over_chat.kit import make_context as make_messages_context
from tests.support.rows import each_row

Json = dict[str, Any]


@each_row(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
         Tokens(INPUT_ESTIMATE, output=100)),
        ({"prompt_tokens": 5}, Tokens(5, output=100)),
        ({"prompt_tokens": 5, "completion_tokens": None}, Tokens(5, output=100)),
        ({"completion_tokens": 5}, Tokens(INPUT_ESTIMATE, output=5)),
        ({}, Tokens(INPUT_ESTIMATE, output=100)),
    ],
)  # fmt: skip
def test_the_half_of_a_report_that_counts_nothing_is_none(usage: Json, tokens: Tokens) -> None:
    heard = hear(
        events(chunk(role()), chunk(text("a" * 400)), chunk(stop())),
        event(chunk(usage=usage)),
        DONE,
    )
    assert (heard.tokens, heard.estimated) == (tokens, True)


@each_row(
    "usages",
    [
        [{**USAGE, "total_tokens": None}],
        [{**USAGE, "prompt_tokens_details": None}],
        [USAGE, {}],
        [USAGE, {"prompt_tokens": None}],
        [USAGE, {"prompt_tokens": 9}],
        [USAGE, {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}],
        [USAGE, {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}],
    ],
)
def test_null_is_absence_and_a_report_of_nothing_discards_nothing(usages: list[Json]) -> None:
    heard = hear(
        events(chunk(role()), chunk(text("a" * 400)), chunk(stop())),
        *(event(chunk(usage=usage)) for usage in usages),
        DONE,
    )
    assert (heard.tokens, heard.estimated) == (Tokens(9, output=3), False)


CUSTOM = {"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": {"input": "a" * 40}}]}
LISTED = {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "a" * 40}]}]}
PICTURE = {"images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}


@each_row(
    ("delta", "tokens"),
    [
        (LISTED, 10),
        (CUSTOM, 10),
        (CALL, 0),
        (PICTURE, 1600),
        ({"audio": {"data": "AAAA"}}, 0),
        ({"audio": {"transcript": "a" * 40}}, 10),
        ({"what_comes_next": "x"}, 0),
    ],
)
def test_anything_the_model_made_counts_as_delivered(delta: Json, tokens: int) -> None:
    """So a stream that breaks off behind it is not free."""
    heard = hear(events(chunk(role()), chunk(choice(delta))))
    assert heard.delivered
    assert heard.tokens == Tokens(INPUT_ESTIMATE, output=tokens)


def test_a_role_alone_is_nothing() -> None:
    assert not hear(events(chunk(role()))).delivered
    assert not hear(
        events(chunk(role()), chunk(choice({"content": "", "tool_calls": None})))
    ).delivered


def test_a_call_without_arguments_is_not_made_of_0_tokens() -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 0, "total_tokens": 9}
    heard = hear(
        events(chunk(role()), chunk(choice(CALL)), chunk(stop()), chunk(usage=usage)) + DONE
    )
    assert (heard.tokens, heard.estimated) == (Tokens(9), True)


@each_row("delta", ["x", [1], 5, True])
def test_a_delta_that_is_no_object_is_nothing(delta: Any) -> None:
    heard = hear(events(chunk(role()), chunk(choice(delta)), chunk(stop())) + DONE)
    assert (heard.complete, heard.tokens.output) == (True, 0)


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


def test_an_oversized_event_is_no_text_and_beats_no_report() -> None:
    picture = chunk(choice({"images": ["A" * (2 << 20)]}))
    told = events(chunk(role()), picture, chunk(stop()), chunk(usage=USAGE)) + DONE
    heard = hear(told)
    assert (heard.complete, heard.tokens, heard.estimated) == (True, Tokens(9, output=3), False)
    unfinished = hear(events(chunk(role()), picture))
    assert unfinished.tokens.output == 1600


@each_row("caller", ["chat", "messages"])
def test_a_page_is_no_stream(caller: str) -> None:
    """It begins like no event, so nothing of it is passed on, and nothing is owed."""
    page = b"<!DOCTYPE html><html>" + b"<p>Sign in to continue</p>" * 60_000
    context = make_messages_context() if caller == "messages" else None
    heard = hear(page, caller=caller, context=context)
    assert (heard.out, heard.delivered, heard.complete) == (b"", False, False)
    assert (
        caller == "messages"
        or heard.failure == "The upstream provider's reply is no stream of events."
    )


@each_row(("deltas", "finish"), [([text("Hallo")], "stop"), ([choice(CALL)], "tool_calls")])
@each_row("caller", ["chat", "messages"])
def test_a_done_without_a_finish_reason_gets_one(
    deltas: list[Json], finish: str, caller: str
) -> None:
    """`[DONE]` is the provider's word that it is done."""
    context = make_messages_context() if caller == "messages" else None
    heard = hear(events(chunk(role()), *map(chunk, deltas)) + DONE, caller=caller, context=context)
    assert (heard.complete, heard.failure) == (True, None)
    if caller == "chat":
        (last,) = read_chunks(heard.out.removesuffix(DONE))[-1]["choices"]
        assert (last["delta"], last["finish_reason"]) == ({}, finish)
    else:
        assert (b'"tool_use"' in heard.out) == (finish == "tool_calls")


@each_row("caller", ["chat", "messages"])
def test_a_reply_of_nothing_is_a_failure_and_free(caller: str) -> None:
    """Without content, finish reason and usage there is nothing to charge for."""
    context = make_messages_context() if caller == "messages" else make_context()
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


def test_a_usage_stays_behind_a_finish_reason_that_is_added() -> None:
    said = events(chunk(role()), chunk(text("Hallo")), chunk(usage=USAGE))
    for tail in (DONE, event(chunk(stop())) + DONE):
        heard = hear(said + tail)
        assert heard.complete
        check_stream(heard.chunks, usage=True)


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


def test_a_message_that_stops_without_a_reason_is_cut_short() -> None:
    heard = hear_message(start(), open_block(0, text=""), say("a" * 40), close(), STOP)
    assert (heard.complete, heard.failure) == (False, "The upstream provider's reply is cut short.")
    assert heard.tokens.output >= 10


@each_row(
    ("arguments", "held"),
    [
        ("[1]", {"arguments": [1]}),
        ('"x"', {"arguments": "x"}),
        ("null", {"arguments": "null"}),
        ("not JSON", {"arguments": "not JSON"}),
        ([1], {"arguments": [1]}),
        ({"a": 1}, {"a": 1}),
        (' {"a": 1}', {"a": 1}),
        ([], {}),
        ("", {}),
    ],
)
def test_arguments_are_the_same_in_json_and_in_a_stream(arguments: object, held: Json) -> None:
    context = make_messages_context()
    exchange = EXCHANGES["messages"]["chat"]
    calls = [{"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    reply = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    (block,) = json.loads(exchange.read_reply(dump(reply), context).body)["content"]
    assert block["input"] == held
    told = events(chunk(role()), chunk(choice({"tool_calls": calls})), chunk(stop())) + DONE
    out = hear(told, caller="messages", context=context).out
    read = [json.loads(line[6:]) for line in out.splitlines() if line.startswith(b"data: ")]
    said = "".join(one.get("delta", {}).get("partial_json", "") for one in read)
    assert json.loads(said or "{}") == held


def call_function(arguments: str, **function: str) -> Json:
    called = {"index": 0, "id": "c", "function": {"arguments": arguments, **function}}
    return chunk(choice({"tool_calls": [called]}))


def test_what_a_translator_cannot_write_is_owed_by_the_usage_behind_it() -> None:
    told = events(chunk(role()), call_function("a" * 40), chunk(stop()))
    for tail, tokens in (
        (events(chunk(usage=USAGE)) + DONE, Tokens(9, output=10)),
        (event(chunk(usage={**USAGE, "completion_tokens": 30})), Tokens(9, output=30)),
        (DONE, Tokens(INPUT_ESTIMATE, output=10)),
        (b"", Tokens(INPUT_ESTIMATE, output=10)),
    ):
        pipeline = EXCHANGES["messages"]["chat"].open_stream(make_messages_context())
        pipeline.feed(told)
        assert pipeline.failure is None
        pipeline.feed(tail)
        pipeline.end()
        assert isinstance(pipeline.failure, UndeliverableReply)
        assert (pipeline.complete, pipeline.measure().tokens) == (False, tokens)


def test_arguments_that_wait_are_counted() -> None:
    pipeline = EXCHANGES["messages"]["chat"].open_stream(make_messages_context())
    pipeline.feed(events(chunk(role()), call_function("a" * 40, name="f")))
    assert pipeline.measure().tokens.output == 10
