"""Messages usage objects: their charges, which are implausible, and which text counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.messages.usage import count_message_text, read_messages_usage
from gateway.money import Tokens
from gateway.usage import Expected, UsageLimits
from tests.support.fuzz import fuzz, json_values

LIMITS = UsageLimits(10_000, 1_000, 1_000)
EXPECTED = Expected(7, LIMITS)
CACHED, WRITTEN = "cache_read_input_tokens", "cache_creation_input_tokens"
FIELDS = ("input_tokens", "output_tokens", CACHED, WRITTEN)

Json = dict[str, Any]


def usage(tokens_in: Any = 10, tokens_out: Any = 5, **extra: Any) -> Json:
    return {"input_tokens": tokens_in, "output_tokens": tokens_out, **extra}


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [-1, 1.5, 5.0, True, "5", [1], {"a": 1}, 1e300], ids=repr)
def test_a_usage_that_cannot_be_counts_as_none(field: str, value: Any) -> None:
    assert read_messages_usage(usage() | {field: value}, EXPECTED).tokens is None


@pytest.mark.parametrize(
    "reported",
    [
        *(None, 7, [], {}, usage(None), usage(10, None), {"input_tokens": 1}),
        *(usage(cache_creation={f"ephemeral_{life}_input_tokens": -1}) for life in ("5m", "1h")),
        *(usage(10_001), usage(10, 1_001), usage(5_000, 5, **{CACHED: 5_001})),
    ],
    ids=repr,
)
def test_missing_and_implausible_usages_count_as_none(reported: Any) -> None:
    assert read_messages_usage(reported, EXPECTED).tokens is None


@pytest.mark.parametrize("iterations", [None, [], [7, None], {}, "x"], ids=repr)
def test_iterations_that_are_no_objects_are_none(iterations: Any) -> None:
    reported = usage(iterations=iterations)
    assert read_messages_usage(reported, EXPECTED).tokens == Tokens(10, output=5)
    del reported["output_tokens"]
    assert read_messages_usage(reported, EXPECTED).tokens is None


@fuzz(80)
@given(st.dictionaries(st.sampled_from(FIELDS), json_values))
def test_no_json_breaks_the_reader(reported: Json) -> None:
    tokens = read_messages_usage(reported, EXPECTED).tokens
    if tokens is not None:
        assert 0 <= tokens.output <= LIMITS.output
        assert tokens.total - tokens.output <= LIMITS.input


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
