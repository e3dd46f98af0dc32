"""JSON replies of messages upstreams, token counts, and usage objects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.messages.stream import count_message_text, read_messages_usage
from gateway.dialects.messages.upstream import edit_count
from gateway.errors import UpstreamError, UpstreamUnavailable
from gateway.money import Tokens
from gateway.usage import Expected, UsageLimits
from tests.dialects.chat.kit import INPUT_ESTIMATE, MODEL, make_context
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

Json = dict[str, Any]

EXCHANGE = EXCHANGES["messages"]["messages"]
USAGE = {"input_tokens": 9, "output_tokens": 3, "cache_read_input_tokens": 2}


def message(**fields: Any) -> Json:
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "theirs"}
    content = [{"type": "text", "text": "12345"}]
    return {**head, "content": content, "stop_reason": "end_turn", "usage": USAGE, **fields}


def test_a_message_passes_byte_for_byte_but_for_the_model() -> None:
    """Spacing, key order, vendor fields and a "model" further in stay as they came."""
    body = (
        b'{"x": {"model":"theirs"},"content": [ {"type":"text","text":"\\"model\\":\\"theirs\\""} ],\n'
        b' "model":"theirs","usage": {"output_tokens":3, "input_tokens":9},"vendor":[1.50],"stop_reason":"end_turn"}'
    )
    reply = EXCHANGE.read_reply(b"\n" + body + b"\r\n", make_context())
    assert reply.body == body.replace(b' "model":"theirs"', b' "model":"%b"' % MODEL.encode())
    assert (reply.metered.tokens, reply.metered.estimated) == (Tokens(9, output=3), False)


@each_row("model", [None, 7, ""])
def test_a_model_that_is_missing_is_given(model: object) -> None:
    reply = EXCHANGE.read_reply(json.dumps(message(model=model)).encode(), make_context())
    assert json.loads(reply.body) == message(model=MODEL)


@each_row("usage", [None, {}, [], {"output_tokens": -1}])
def test_a_reply_without_a_usage_that_can_be_is_estimated_and_passes(usage: Any) -> None:
    reply = EXCHANGE.read_reply(json.dumps(message(usage=usage)).encode(), make_context())
    assert (reply.metered.tokens, reply.metered.estimated) == (
        Tokens(INPUT_ESTIMATE, output=2),
        True,
    )
    assert json.loads(reply.body) == message(usage=usage, model=MODEL)


@each_row(
    ("body", "kind"),
    [
        (b"", UpstreamError),
        (b"<html>", UpstreamError),
        (b"null", UpstreamError),
        (b"[]", UpstreamError),
        (b'{"content":"x"}', UpstreamError),
        (b'{"type":"error","error":{"type":"api_error","message":"m"}}', UpstreamError),
        (b'{"error":{"type":"rate_limit_error","message":"m"}}', UpstreamUnavailable),
    ],
)
def test_what_is_no_message_is_the_upstreams_fault(body: bytes, kind: type[UpstreamError]) -> None:
    with pytest.raises(UpstreamError) as caught:
        EXCHANGE.read_reply(body, make_context())
    assert type(caught.value) is kind


def test_a_count_passes_but_for_a_model_it_names() -> None:
    assert edit_count(b' {"input_tokens": 7}', "m") == b' {"input_tokens": 7}'
    assert edit_count(b'{"input_tokens":7,"cost":0.5}', "m") == b'{"input_tokens":7}'
    edited = json.loads(edit_count(b'{"input_tokens":7,"model":"theirs"}', "m"))
    assert edited == {"input_tokens": 7, "model": "m"}


@each_row(
    "body", [b"", b"[]", b"{}", b'{"input_tokens":-1}', b'{"input_tokens":true}', b'{"input_tokens":"7"}']
)  # fmt: skip
def test_what_is_no_count_is_the_upstreams_fault(body: bytes) -> None:
    with pytest.raises(UpstreamError):
        edit_count(body, "m")


LIMITS = UsageLimits(10_000, 1_000, 1_000)
EXPECTED = Expected(7, LIMITS)
CACHED, WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
FIELDS = ("input_tokens", "output_tokens", CACHED, WRITTEN)


def usage(tokens_in: Any = 10, tokens_out: Any = 5, **extra: Any) -> Json:
    return {"input_tokens": tokens_in, "output_tokens": tokens_out, **extra}


NOTHING, NO_INPUT, NO_OUTPUT, BOTH = (False, False), (False, True), (True, False), (True, True)


def halves(reported: Any) -> tuple[bool, bool]:
    """Return which halves are told; the others have to be without tokens."""
    read = read_messages_usage(reported, EXPECTED)
    assert read.has_input or read.tokens.all_input == 0
    assert read.has_output or read.tokens.output == 0
    return read.has_input, read.has_output


@each_row("field", FIELDS)
@each_row("value", [-1, 1.5, 5.0, True, "5", [1], {"a": 1}, 1e300])
def test_a_half_that_cannot_be_counts_as_not_told(field: str, value: Any) -> None:
    told = NO_OUTPUT if field == "output_tokens" else NO_INPUT
    assert halves(usage() | {field: value}) == told


@each_row(
    ("reported", "told"),
    [
        (None, NOTHING),
        (7, NOTHING),
        ([], NOTHING),
        ({}, NOTHING),
        (usage(10, None), NO_OUTPUT),
        ({"input_tokens": 1}, NO_OUTPUT),
        (usage(None), NO_INPUT),
        *(
            (usage(cache_creation={f"ephemeral_{life}_input_tokens": -1}), NO_INPUT)
            for life in ("5m", "1h")
        ),
        # Limits are those of `meter`.
        *((one, BOTH) for one in (usage(10_001), usage(10, 1_001))),
    ],
)
def test_halves_that_are_missing_are_not_told(reported: Any, told: tuple[bool, bool]) -> None:
    assert halves(reported) == told


@each_row("iterations", [None, [], [7, None], {}, "x"])
def test_iterations_that_are_no_objects_are_none(iterations: Any) -> None:
    reported = usage(iterations=iterations)
    assert read_messages_usage(reported, EXPECTED).tokens == Tokens(10, output=5)
    del reported["output_tokens"]
    assert halves(reported) == NO_OUTPUT


@fuzz(80)
@given(st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_no_json_breaks_the_reader(reported: Json) -> None:
    tokens = read_messages_usage(reported, EXPECTED).tokens
    assert min(tokens.input, tokens.cached_input, tokens.cache_write, tokens.output) >= 0
    halves(reported)


def test_text_thinking_and_input_are_counted() -> None:
    blocks: list[Any] = [
        {"type": "text", "text": "é", "citations": None},
        {"type": "thinking", "thinking": "abc", "signature": "not counted"},
        {"type": "redacted_thinking", "data": "not counted"},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        7,
    ]
    assert count_message_text({"content": blocks}) == 2 + 3 + 7 + 2
