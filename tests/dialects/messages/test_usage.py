"""Messages usage objects: their charges, which are implausible, and which text counts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.messages.usage import count_message_text, read_messages_usage
from gateway.money import Tokens
from gateway.usage import Expected, UsageLimits
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

LIMITS = UsageLimits(10_000, 1_000, 1_000)
EXPECTED = Expected(7, LIMITS)
CACHED, WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
FIELDS = ("input_tokens", "output_tokens", CACHED, WRITTEN)

Json = dict[str, Any]


def usage(tokens_in: Any = 10, tokens_out: Any = 5, **extra: Any) -> Json:
    return {"input_tokens": tokens_in, "output_tokens": tokens_out, **extra}


@each_row(
    ("reported", "tokens"),
    [
        (usage(), Tokens(10, 0, 0, 5)),
        (usage(0, 0), Tokens()),
        (usage(**{CACHED: 4}), Tokens(10, 4, 0, 5)),
        (usage(**{CACHED: 4, WRITTEN: 3}), Tokens(10, 4, 3, 5)),
        (usage(**{CACHED: None, WRITTEN: None}), Tokens(10, 0, 0, 5)),
        (
            usage(5_000, 1_000, **{CACHED: 3_000, WRITTEN: 2_000}),
            Tokens(5_000, 3_000, 2_000, 1_000),
        ),
    ],
)
def test_reported_tokens_by_class(reported: Json, tokens: Tokens) -> None:
    """The classes are disjoint as they come."""
    assert read_messages_usage(reported, EXPECTED).tokens == tokens


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
