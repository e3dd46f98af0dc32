"""Usage objects in OpenAI's shape: their charges, which halves can be, calls of tools, the bill."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.wire.passing import maybe_find_end_usage
from gateway.dialects.wire.usage import hide_bill, read_openai_usage
from gateway.money import Tokens
from gateway.usage import Expected, UsageLimits
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

EXPECTED = Expected(7, UsageLimits(10_000, 1_000, 1_000))
ROOMY = Expected(7, UsageLimits(10**6, 10**6, 10**6))
FIELDS = ("prompt_tokens", "completion_tokens", "total_tokens")


def usage(prompt: Any = 10, completion: Any = 5, total: Any = 15, **extra: Any) -> dict[str, Any]:
    return dict(zip(FIELDS, (prompt, completion, total), strict=True)) | extra


def details(**counts: Any) -> dict[str, Any]:
    return {"prompt_tokens_details": counts}


@each_row(
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
        (usage(**details(cached_tokens=99)), Tokens(10, 99, 0, 5)),
        (usage(**details(cached_tokens=7, cache_write_tokens=7)), Tokens(3, 7, 7, 5)),
        (usage(**details(cached_tokens=11, cache_write_tokens=7)), Tokens(10, 11, 7, 5)),
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
    assert read_openai_usage(reported, None, EXPECTED).tokens == tokens


ABSURD: tuple[Any, ...] = (-1, 1.5, 5.0, True, "5", [], {}, 1e300)


NO_INPUT, NO_OUTPUT, BOTH = (False, True), (True, False), (True, True)


def halves(reported: dict[str, Any] | None) -> tuple[bool, bool]:
    """Return which halves are told; the others have to be without tokens."""
    read = read_openai_usage(reported, None, EXPECTED)
    assert read.has_input or read.tokens.all_input == 0
    assert read.has_output or read.tokens.output == 0
    return read.has_input, read.has_output


@each_row(("field", "told"), list(zip(FIELDS, (NO_INPUT, NO_OUTPUT, BOTH), strict=True)))
@each_row("value", ABSURD)
def test_a_half_that_cannot_be_counts_as_not_told(
    field: str, told: tuple[bool, bool], value: Any
) -> None:
    """Without its total a usage is whole."""
    assert halves(usage() | {field: value}) == told


@each_row("field", ["cached_tokens", "cache_write_tokens"])
@each_row("value", [-1, 1.5, True, "5", [1], {"a": 1}])
def test_absurd_details_make_the_input_none(field: str, value: Any) -> None:
    assert halves(usage(**details(**{field: value}))) == NO_INPUT


@each_row(
    ("reported", "told"),
    [
        (None, (False, False)),
        ({}, (False, False)),
        (usage(prompt=None), NO_INPUT),
        (usage(completion=None, total=None), NO_OUTPUT),
        (usage(prompt_tokens_details=[1]), BOTH),
        (usage(prompt_cache_hit_tokens=-4), NO_INPUT),
        # Limits are those of `meter`.
        (usage(10_001, 1_001, 11_002), BOTH),
    ],
)
def test_halves_that_are_missing_are_not_told(
    reported: dict[str, Any] | None, told: tuple[bool, bool]
) -> None:
    assert halves(reported) == told


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
    """Caches stand beside the prompt where they exceed it, or where the total says so."""
    read = read_openai_usage(reported, None, ROOMY)
    tokens, prompt = read.tokens, reported["prompt_tokens"]
    assert (read.has_input, read.has_output) == BOTH
    assert min(tokens.input, tokens.cached_input, tokens.cache_write, tokens.output) >= 0
    beside = tokens.all_input - prompt
    assert beside in (
        0,
        tokens.cached_input,
        tokens.cache_write,
        tokens.cached_input + tokens.cache_write,
    )
    assert beside or tokens.cached_input + tokens.cache_write <= prompt
    assert tokens.output >= reported["completion_tokens"]
    expected = tokens.all_input + reported["completion_tokens"]
    assert tokens.total == max(reported.get("total_tokens", 0), expected)


@fuzz(80)
@given(st.dictionaries(st.sampled_from((*FIELDS, "prompt_tokens_details")), json_values))
def test_no_json_breaks_the_reader(reported: dict[str, Any]) -> None:
    tokens = read_openai_usage(reported, None, EXPECTED).tokens
    assert min(tokens.input, tokens.cached_input, tokens.cache_write, tokens.output) >= 0
    halves(reported)


@each_row(
    ("told", "searches"),
    [
        ({}, None),
        ({"num_search_queries": 2}, 2),
        ({"num_search_queries": None}, None),
        ({"num_search_queries": -1}, None),
        ({"num_search_queries": True}, None),
        ({"num_search_queries": 10**6}, 10**6),
        ({"server_tool_use": {"web_search_requests": 3}}, 3),
        ({"server_tool_use": {"web_search_requests": 3}, "num_search_queries": 2}, 3),
        ({"server_tool_use": {"web_search_requests": None}, "num_search_queries": 2}, 2),
        ({"server_tool_use": {"web_search_requests": "3"}, "num_search_queries": 2}, 2),
        ({"server_tool_use": 7, "num_search_queries": 2}, 2),
    ],
)
def test_web_searches_are_read_under_either_name(
    told: dict[str, Any], searches: int | None
) -> None:
    read = read_openai_usage(usage(**told), None, EXPECTED).tool_calls
    assert read == (None if searches is None else {"web_search": searches})


@each_row(
    ("told", "nano"),
    [
        ({}, None),
        ({"cost": 4.12e-05}, 41_200),
        ({"cost": 0}, 0),
        ({"cost": None}, None),
        ({"cost": "0.1"}, 10**8),
        ({"cost": {"total_cost": 1}}, 10**9),
        ({"cost": -1}, None),
    ],
)
def test_the_providers_bill_is_read_if_it_can_be(told: dict[str, Any], nano: int | None) -> None:
    assert read_openai_usage(usage(**told), None, EXPECTED).cost_nano == nano


@each_row(
    ("told", "shown"),
    [
        ({"usage": {"cost": 1, "prompt_tokens": 2}}, {"usage": {"prompt_tokens": 2}}),
        ({"usage": {"is_byok": True, "totalCost": 1, "num": 7}}, {"usage": {"num": 7}}),
        ({"usage": {"more": [{"request_pricing": {}}, 1]}}, {"usage": {"more": [{}, 1]}}),
        ({"cost": "$0.10", "id": "a"}, {"id": "a"}),
        (
            {"choices": [{"usage": {"cost": 1}, "index": 0}]},
            {"choices": [{"usage": {}, "index": 0}]},
        ),
        ({"x_groq": {"usage": {"cost": 1}}}, {"x_groq": {"usage": {}}}),
        ({"message": {"usage": {"cost_details": {}}}}, {"message": {"usage": {}}}),
        (
            {"provider_metadata": {"gateway": {"marketCost": "0.1", "routing": 1}}},
            {"provider_metadata": {"gateway": {"routing": 1}}},
        ),
    ],
)
def test_the_providers_bill_is_shown_to_nobody(told: dict[str, Any], shown: object) -> None:
    assert hide_bill(told, json.dumps(told).encode()) == shown


@each_row(
    "told",
    [
        {"usage": {"prompt_tokens": 1}},
        {"choices": [{"message": {"content": '"cost": 1', "tool_calls": [{"cost": 2}]}}]},
        {"output": [{"type": "message", "content": [{"cost": 1}]}]},
    ],
)
def test_what_is_no_bill_stays_the_same_object(told: dict[str, Any]) -> None:
    assert hide_bill(told, json.dumps(told).encode()) is told


@each_row(
    ("end", "found"),
    [
        (b'x"}],"usage": {"a":{"b":1}},"z":1}\n\n', {"a": {"b": 1}}),
        (b'"usage":{"a":1},"usage":{"a":2}}', {"a": 2}),
        (b'\xff\xc3","usage":{"a":"\xc3\xa4"}}', {"a": "ä"}),
        (b'\\"usage\\":{\\"a\\":1}', None),
        (b'"usage":{"a":', None),
        (b'"usage":null', None),
        (b"", None),
    ],
)
def test_the_usage_at_the_end_of_an_event(end: bytes, found: object) -> None:
    place = maybe_find_end_usage(end)
    assert (place and place[2]) == found
    if place is not None:
        assert json.loads(end[place[0] : place[1]]) == found


def test_a_bill_whose_name_is_escaped_is_not_shown() -> None:
    text = rb'{"usage":{"c\u006fst":0.5}}'
    assert hide_bill(json.loads(text), text) == {"usage": {}}
