"""Chat usage objects, and the one choice that is written from another dialect's events."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat.repair import count_message_text
from gateway.dialects.chat.writer import uses_functions
from gateway.dialects.records import Json
from gateway.dialects.wire.usage import make_chat_usage, maybe_repair_chat_usage, read_openai_usage
from gateway.money import Tokens
from gateway.usage import Expected, UsageLimits
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

ROOMY = Expected(7, UsageLimits(10**6, 10**6, 10**6))
FIELDS = ("prompt_tokens", "completion_tokens", "total_tokens")


def usage(prompt: Any = 10, completion: Any = 5, total: Any = 15, **extra: Any) -> dict[str, Any]:
    return dict(zip(FIELDS, (prompt, completion, total), strict=True)) | extra


counts = st.integers(0, 2_000)


@fuzz(80)
@given(st.dictionaries(st.sampled_from((*FIELDS, "prompt_tokens_details")), json_values))
def test_what_is_repaired_is_well(reported: dict[str, Any]) -> None:
    repaired = maybe_repair_chat_usage(reported)
    assert repaired is None or maybe_repair_chat_usage(repaired) is None


@each_row(
    ("reported", "repaired"),
    [
        (usage(12, 1, 303), usage(12, 291, 303)),
        (usage(12, 9, 3), usage(12, 9, 21)),
        (usage(12, 9, None), usage(12, 9, 21)),
        (usage(12, 1, 303, num_sources_used=7), usage(12, 291, 303, num_sources_used=7)),
    ],
)
def test_a_total_is_made_the_sum(reported: dict[str, Any], repaired: dict[str, Any]) -> None:
    """All other fields and their order stay."""
    before = dict(reported)
    assert maybe_repair_chat_usage(reported) == repaired
    assert list(maybe_repair_chat_usage(reported) or {}) == list(reported)
    assert reported == before


@each_row("reported", [usage(), usage(-1), usage("x"), {}, usage(completion=None, total=None)])
def test_a_usage_that_is_well_or_unreadable_is_left(reported: dict[str, Any]) -> None:
    assert maybe_repair_chat_usage(reported) is None


@fuzz(100)
@given(st.builds(Tokens, counts, counts, counts, counts))
def test_a_made_usage_is_read_as_the_same_total(tokens: Tokens) -> None:
    made = make_chat_usage(tokens)
    assert made["prompt_tokens"] + made["completion_tokens"] == made["total_tokens"]
    read = read_openai_usage(made, None, ROOMY).tokens
    assert read == Tokens(tokens.total - tokens.output, output=tokens.output)


def call(arguments: Any) -> dict[str, Any]:
    return {"function": {"name": "f", "arguments": arguments}}


@each_row(
    ("message", "count"),
    [
        ({}, 0),
        ({"content": None, "refusal": None, "tool_calls": None}, 0),
        ({"content": "abé"}, 4),
        ({"content": "\ud800"}, 3),
        ({"content": 7, "refusal": [], "tool_calls": "x", "function_call": "y"}, 0),
        ({"content": "a", "refusal": "bc"}, 3),
        ({"reasoning_content": "abc", "reasoning": "abc"}, 3),
        ({"content": "a", "reasoning": "bc"}, 3),
        ({"tool_calls": [call("{}"), call('{"a":1}'), call(None), {}, 7]}, 9),
        ({"tool_calls": [call({"a": 1})]}, 7),
        ({"function_call": {"name": "f", "arguments": "{}"}}, 2),
        ({"content": [{"type": "text", "text": "ab"}, {"type": "image_url"}, 7]}, 2 + 6400),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "abc"}]},
                    {"type": "text", "text": "d"},
                ]
            },
            4,
        ),
    ],
)
def test_text_reasoning_and_arguments_are_counted_once(message: dict[str, Any], count: int) -> None:
    """Texts in lists count too; reasoning under both of its names counts once."""
    assert count_message_text(message) == count


@each_row("total", [15.0, "15", None])
def test_a_total_that_is_no_integer_is_written_anew(total: Any) -> None:
    repaired = maybe_repair_chat_usage(usage(total=total))
    assert repaired == usage()
    assert type(repaired["total_tokens"]) is int


@each_row(
    ("body", "expected"),
    [
        ({}, False),
        ({"functions": []}, False),
        ({"functions": [{}]}, True),
        ({"functions": [{}], "tools": []}, True),
        ({"functions": [{}], "tools": [{}]}, False),
    ],
)
def test_tools_come_before_functions(body: Json, *, expected: bool) -> None:
    assert uses_functions(body) is expected
