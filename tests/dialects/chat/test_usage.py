"""Chat usage objects: their charges, which are implausible, and which text counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat.usage import (
    count_message_text,
    make_chat_usage,
    maybe_repair_chat_usage,
    read_chat_usage,
)
from gateway.money import Tokens
from gateway.usage import Expected, UsageLimits
from tests.support.fuzz import fuzz, json_values

LIMITS = UsageLimits(10_000, 1_000, 1_000)
EXPECTED = Expected(7, LIMITS)
ROOMY = Expected(7, UsageLimits(10**6, 10**6, 10**6))
FIELDS = ("prompt_tokens", "completion_tokens", "total_tokens")


def usage(prompt: Any = 10, completion: Any = 5, total: Any = 15, **extra: Any) -> dict[str, Any]:
    return dict(zip(FIELDS, (prompt, completion, total), strict=True)) | extra


def details(**counts: Any) -> dict[str, Any]:
    return {"prompt_tokens_details": counts}


@pytest.mark.parametrize(
    ("reported", "tokens"),
    [
        (usage(), Tokens(10, 0, 0, 5)),
        (usage(0, 0, 0), Tokens()),
        (usage(**details(cached_tokens=4)), Tokens(6, 4, 0, 5)),
        (usage(**details(cached_tokens=4, cache_write_tokens=3)), Tokens(3, 4, 3, 5)),
        (usage(**details(cached_tokens=None)), Tokens(10, 0, 0, 5)),
        (usage(prompt_tokens_details=None), Tokens(10, 0, 0, 5)),
        (usage(prompt_cache_hit_tokens=8), Tokens(2, 8, 0, 5)),
        (usage(prompt_cache_hit_tokens=8, **details(cached_tokens=8)), Tokens(2, 8, 0, 5)),
        (usage(**details(cached_tokens=99)), Tokens(0, 10, 0, 5)),
        (usage(**details(cached_tokens=7, cache_write_tokens=7)), Tokens(0, 7, 3, 5)),
        (usage(12, 1, 303), Tokens(12, 0, 0, 291)),
        (usage(12, 9, 3), Tokens(12, 0, 0, 9)),
        ({"prompt_tokens": 10, "completion_tokens": 5}, Tokens(10, 0, 0, 5)),
        ({"prompt_tokens": 10, "total_tokens": 10}, Tokens(10, 0, 0, 0)),
        (usage(completion=None), Tokens(10, 0, 0, 5)),
        (usage(total=None), Tokens(10, 0, 0, 5)),
        (usage(completion=None, total=None), Tokens(10, 0, 0, 0)),
        (usage(10_000, 1_000, 11_000), Tokens(10_000, 0, 0, 1_000)),
    ],
)
def test_reported_tokens_by_class(reported: dict[str, Any], tokens: Tokens) -> None:
    """Classes are disjoint; output is max(completion, total - prompt)."""
    assert read_chat_usage(reported, None, EXPECTED).tokens == tokens


ABSURD: tuple[Any, ...] = (-1, 1.5, 5.0, True, "5", [], {}, 1e300, 10**40)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", ABSURD, ids=repr)
def test_a_usage_that_cannot_be_counts_as_none(field: str, value: Any) -> None:
    assert read_chat_usage(usage() | {field: value}, None, EXPECTED).tokens is None


@pytest.mark.parametrize("field", ["cached_tokens", "cache_write_tokens"])
@pytest.mark.parametrize("value", [-1, 1.5, True, "5", [1], {"a": 1}], ids=repr)
def test_absurd_details_make_the_usage_none(field: str, value: Any) -> None:
    assert read_chat_usage(usage(**details(**{field: value})), None, EXPECTED).tokens is None


@pytest.mark.parametrize(
    "reported",
    [
        None,
        {},
        usage(prompt=None),
        usage(10_001, 5, 10_006),
        usage(10, 1_001, 1_011),
        usage(10, 5, 1_011),
        usage(prompt_tokens_details=[1]),
        usage(prompt_cache_hit_tokens=-4),
    ],
    ids=repr,
)
def test_missing_and_implausible_usages_count_as_none(reported: dict[str, Any] | None) -> None:
    assert read_chat_usage(reported, None, EXPECTED).tokens is None


counts = st.integers(0, 2_000)
plausible = st.fixed_dictionaries(
    {"prompt_tokens": counts, "completion_tokens": counts},
    optional={
        "total_tokens": counts,
        "prompt_cache_hit_tokens": counts,
        "prompt_tokens_details": st.fixed_dictionaries(
            {}, optional={"cached_tokens": counts, "cache_write_tokens": counts}
        ),
    },
)


@fuzz(150)
@given(plausible)
def test_input_classes_sum_to_the_prompt_and_none_is_negative(reported: Mapping[str, Any]) -> None:
    tokens = read_chat_usage(reported, None, ROOMY).tokens
    assert tokens is not None
    assert min(tokens.input, tokens.cached_input, tokens.cache_write, tokens.output) >= 0
    assert tokens.input + tokens.cached_input + tokens.cache_write == reported["prompt_tokens"]
    assert tokens.output >= reported["completion_tokens"]
    total = reported.get("total_tokens", 0)
    expected = max(total, reported["prompt_tokens"] + reported["completion_tokens"])
    assert tokens.total == expected


@fuzz(80)
@given(st.dictionaries(st.sampled_from((*FIELDS, "prompt_tokens_details")), json_values))
def test_no_json_breaks_the_reader(reported: dict[str, Any]) -> None:
    tokens = read_chat_usage(reported, None, EXPECTED).tokens
    if tokens is not None:
        assert 0 <= tokens.output <= LIMITS.output
        assert tokens.total - tokens.output <= LIMITS.input
    repaired = maybe_repair_chat_usage(reported)
    assert repaired is None or maybe_repair_chat_usage(repaired) is None


@pytest.mark.parametrize(
    ("reported", "repaired"),
    [
        (usage(12, 1, 303), usage(12, 291, 303)),
        (usage(12, 9, 3), usage(12, 9, 21)),
        (usage(12, 9, None), usage(12, 9, 21)),
        (usage(12, 1, 303, cost_in_usd_ticks=7), usage(12, 291, 303, cost_in_usd_ticks=7)),
    ],
)
def test_a_total_is_made_the_sum(reported: dict[str, Any], repaired: dict[str, Any]) -> None:
    """All other fields and their order stay."""
    before = dict(reported)
    assert maybe_repair_chat_usage(reported) == repaired
    assert list(maybe_repair_chat_usage(reported) or {}) == list(reported)
    assert reported == before


@pytest.mark.parametrize("reported", [usage(), usage(-1), usage("x"), {}, usage(completion=None)])
def test_a_usage_that_is_well_or_unreadable_is_left(reported: dict[str, Any]) -> None:
    assert maybe_repair_chat_usage(reported) is None


@fuzz(100)
@given(st.builds(Tokens, counts, counts, counts, counts))
def test_a_made_usage_is_read_as_the_same_total(tokens: Tokens) -> None:
    made = make_chat_usage(tokens)
    assert made["prompt_tokens"] + made["completion_tokens"] == made["total_tokens"]
    read = read_chat_usage(made, None, ROOMY).tokens
    assert read == Tokens(tokens.total - tokens.output, output=tokens.output)


def call(arguments: Any) -> dict[str, Any]:
    return {"function": {"name": "f", "arguments": arguments}}


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("told", "searches"),
    [
        ({}, None),
        ({"num_search_queries": 2}, 2),
        ({"num_search_queries": None}, None),
        ({"num_search_queries": -1}, None),
        ({"num_search_queries": True}, None),
        ({"num_search_queries": 10**6}, 10_000),
        ({"server_tool_use": {"web_search_requests": 3}}, 3),
        ({"server_tool_use": {"web_search_requests": 3}, "num_search_queries": 2}, 3),
        ({"server_tool_use": {"web_search_requests": None}, "num_search_queries": 2}, 2),
        ({"server_tool_use": {"web_search_requests": "3"}, "num_search_queries": 2}, None),
        ({"server_tool_use": 7, "num_search_queries": 2}, 2),
    ],
)
def test_web_searches_are_read_under_either_name(
    told: dict[str, Any], searches: int | None
) -> None:
    assert read_chat_usage(usage(**told), None, EXPECTED).web_searches == searches


@pytest.mark.parametrize(
    ("told", "nano"),
    [
        ({}, None),
        ({"cost": 4.12e-05}, 41_200),
        ({"cost": 0}, 0),
        ({"cost": None}, None),
        ({"cost": "0.1"}, None),
        ({"cost": {"total_cost": 1}}, None),
        ({"cost": -1}, None),
    ],
)
def test_the_providers_bill_is_read_if_it_can_be(told: dict[str, Any], nano: int | None) -> None:
    assert read_chat_usage(usage(**told), None, EXPECTED).cost_nano == nano


def test_callers_do_not_get_the_providers_bill() -> None:
    billed = {"cost": 0.1, "cost_details": {"upstream_inference_cost": 0.05}, "is_byok": True}
    assert maybe_repair_chat_usage(usage(**billed, num=7)) == usage(num=7)
    assert maybe_repair_chat_usage(usage(total=3, cost=1)) == usage()
    assert maybe_repair_chat_usage({"cost": 1, "prompt_tokens": "?"}) == {"prompt_tokens": "?"}


@pytest.mark.parametrize("total", [15.0, "15", None])
def test_a_total_that_is_no_integer_is_written_anew(total: Any) -> None:
    repaired = maybe_repair_chat_usage(usage(total=total))
    assert repaired == usage()
    assert type(repaired["total_tokens"]) is int
