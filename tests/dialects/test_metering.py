"""Metering that cannot be avoided: what counts as delivered, and as a report."""

from __future__ import annotations

from typing import Any

from gateway.dialects.exchanges import EXCHANGES
from gateway.money import Tokens
from gateway.prices import Terms
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    choice,
    chunk,
    dump,
    event,
    events,
    make_context,
    role,
    stop,
    text,
)
from tests.dialects.chat_over_messages.events import open_block, start
from tests.dialects.hearing import CALL, USAGE, hear, hear_message
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
    assert pipeline.measure().terms == Terms(tier)
    reply = {"choices": [choice({}, "stop")], "usage": usage, "service_tier": tiers[-1]}
    if len(tiers) == 1:
        whole = EXCHANGES["chat"]["chat"].read_reply(dump(reply), make_context()).metered
        assert whole.terms == Terms(tier)
