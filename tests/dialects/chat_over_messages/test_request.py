"""Chat requests as messages requests: each line of the mapping, and the refused fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.chat_over_messages.request import JSON_INSTRUCTION, PASSED
from gateway.dialects.records import Target
from gateway.errors import BadRequest
from tests.dialects.chat_over_messages.kit import (
    EXCHANGE,
    TARGET,
    check_request,
    find_refusal,
    read_request,
    translate,
)
from tests.support.rows import each_row

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}
BUDGET = Target("their-model", max_output_tokens=5000, reasoning="budget")
PLAIN = Target("their-model", reasoning="none")
Json = dict[str, Any]


def test_request_in_full() -> None:
    made = translate(
        messages=[
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hi"},
        ],
        max_tokens=10,
    )
    assert made == {
        "model": "their-model",
        "max_tokens": 10,
        "system": [{"type": "text", "text": "Be kind."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }
    check_request(made)


def test_exchange_aims_at_the_messages_api() -> None:
    version = {"anthropic-version": "2023-06-01"}
    assert EXCHANGE.upstream.path == "/messages"
    assert EXCHANGE.upstream.auth_headers("secret") == {"x-api-key": "secret", **version}
    assert EXCHANGE.upstream.auth_headers("") == version


@each_row(
    ("body", "expected"),
    [
        ({}, 5000),
        ({"max_tokens": None}, 5000),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 8}, 8),
        ({"max_completion_tokens": 8, "max_tokens": 7}, 8),
        ({"max_tokens": 0}, 5000),
    ],
)
def test_max_tokens_is_always_said(body: Json, expected: int) -> None:
    assert translate(**body)["max_tokens"] == expected


@each_row(
    ("body", "expected"),
    [
        ({}, {}),
        ({"stream": True}, {"stream": True}),
        ({"stream": True, "stream_options": {"include_usage": True}}, {"stream": True}),
        ({"stream": False}, {}),
        ({"temperature": 1}, {"temperature": 1}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"temperature": 1.1}, {"temperature": 1}),
        ({"temperature": 2}, {"temperature": 1}),
        ({"stop": "END"}, {"stop_sequences": ["END"]}),
        ({"stop": ["a", "b", "c", "d", "e"]}, {"stop_sequences": ["a", "b", "c", "d", "e"]}),
        ({"stop": []}, {}),
        ({"user": "u-17"}, {"metadata": {"user_id": "u-17"}}),
        ({"user": "12345678"}, {"metadata": {"user_id": "12345678"}}),
        ({"user": "u", "safety_identifier": "s"}, {"metadata": {"user_id": "s"}}),
        ({"user": "someone@example.com"}, {}),
        ({"user": "+49 30 1234567"}, {}),
        ({"user": ""}, {}),
        ({"service_tier": "auto"}, {"service_tier": "auto"}),
        ({"service_tier": "priority"}, {"service_tier": "auto"}),
        ({"service_tier": "fast"}, {"service_tier": "auto"}),
        ({"service_tier": "default"}, {"service_tier": "standard_only"}),
        ({"service_tier": "standard"}, {"service_tier": "standard_only"}),
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_schema",
              "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}},
         {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}},
          "reasoning_effort": "low"},
         {"thinking": {"type": "adaptive"},
          "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}}),
    ],
)  # fmt: skip
def test_options_in_the_upstreams_words(body: Json, expected: Json) -> None:
    made = translate(**body)
    check_request({key: made[key] for key in made if key not in {"temperature", "top_p"}})
    for always in ("model", "max_tokens", "messages"):
        del made[always]
    assert made == expected


def test_a_cache_key_asks_for_a_mark_unless_the_caller_made_its_own() -> None:
    """Without a mark each turn of an agent would pay for the whole conversation again."""
    assert translate(prompt_cache_key="k") == translate(cache_control={"type": "ephemeral"})
    own = {"type": "ephemeral", "ttl": "1h"}
    assert translate(prompt_cache_key="k", cache_control=own)["cache_control"] == own
    part = {"type": "text", "text": "Hi", "cache_control": own}
    marked = [{"role": "user", "content": [part]}]
    assert "cache_control" not in translate(prompt_cache_key="k", messages=marked)


def test_the_upstreams_own_words_pass() -> None:
    own: Json = {
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "top_k": 5,
    }
    assert set(own) == PASSED
    assert translate(**own) == {**translate(), **own}


@each_row(
    ("target", "word", "thinking", "effort"),
    [
        (TARGET, None, None, None),
        (TARGET, "none", {"type": "disabled"}, None),
        (TARGET, "minimal", {"type": "adaptive"}, "low"),
        (TARGET, "low", {"type": "adaptive"}, "low"),
        (TARGET, "medium", {"type": "adaptive"}, "medium"),
        (TARGET, "high", {"type": "adaptive"}, "high"),
        (TARGET, "xhigh", {"type": "adaptive"}, "xhigh"),
        (TARGET, "max", {"type": "adaptive"}, "max"),
        (BUDGET, None, None, None),
        (BUDGET, "none", None, None),
        (BUDGET, "minimal", {"type": "enabled", "budget_tokens": 1024}, None),
        (BUDGET, "low", {"type": "enabled", "budget_tokens": 1024}, None),
        (BUDGET, "medium", {"type": "enabled", "budget_tokens": 2048}, None),
        (BUDGET, "high", {"type": "enabled", "budget_tokens": 4096}, None),
        (BUDGET, "xhigh", {"type": "enabled", "budget_tokens": 4999}, None),
        (PLAIN, None, None, None),
        (PLAIN, "none", None, None),
        (PLAIN, "medium", None, None),
    ],
)
def test_reasoning_effort_as_the_model_takes_it(
    target: Target, word: str | None, thinking: Json | None, effort: str | None
) -> None:
    made = translate(target, reasoning_effort=word)
    check_request(made)
    assert made.get("thinking") == thinking
    assert made.get("output_config") == (effort and {"effort": effort})


FORCING = ("required", {"type": "function", "function": {"name": "get_weather"}})


@each_row("choice", FORCING)
def test_a_forced_call_is_made_without_thinking(choice: Any) -> None:
    """Anthropic: "Thinking may not be enabled when tool_choice forces tool use."."""
    asked: Json = {"tools": [TOOL], "tool_choice": choice}
    made = translate(**asked, reasoning_effort="high")
    check_request(made)
    assert made == {**translate(**asked), "output_config": {"effort": "high"}}
    assert translate(BUDGET, **asked, reasoning_effort="high") == translate(**asked)
    asked["max_tokens"] = 5
    assert translate(BUDGET, **asked, reasoning_effort="high") == translate(**asked)


@each_row("choice", [None, "auto", "none"])
def test_a_call_that_is_not_forced_leaves_the_thinking(choice: Any) -> None:
    made = translate(tools=[TOOL], tool_choice=choice, reasoning_effort="high")
    assert made["thinking"] == {"type": "adaptive"}


def test_a_budget_for_reasoning_stays_below_max_tokens() -> None:
    def budget(word: str, max_tokens: int) -> Any:
        return translate(BUDGET, reasoning_effort=word, max_tokens=max_tokens).get("thinking")

    assert budget("xhigh", 100_000) == {"type": "enabled", "budget_tokens": 8192}
    assert budget("max", 100_000) == {"type": "enabled", "budget_tokens": 16384}
    assert budget("max", 1025) == {"type": "enabled", "budget_tokens": 1024}
    assert budget("medium", 1024) is None
    assert budget("none", 5) is None
    assert find_refusal(BUDGET, reasoning_effort="low", max_tokens=1024) == "reasoning_effort"
    assert find_refusal(PLAIN, reasoning_effort="high") == "reasoning_effort"
    assert find_refusal(PLAIN, reasoning_effort="minimal") == "reasoning_effort"


def test_request_that_cannot_be_written_is_refused() -> None:
    schema = json.loads('{"items":' * 300 + "{}" + "}" * 300)
    function = {"name": "f", "parameters": schema}
    request = read_request(tools=[{"type": "function", "function": function}])
    with pytest.raises(BadRequest, match="nested too deeply"):
        EXCHANGE.write_request(request, TARGET)


def test_json_without_a_schema_is_asked_for_in_words() -> None:
    asked = translate(
        messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        response_format={"type": "json_object"},
    )
    assert [block["text"] for block in asked["system"]] == ["Be brief.", JSON_INSTRUCTION]
    assert "output_config" not in asked
    alone = translate(
        messages=[{"role": "user", "content": "Hi"}], response_format={"type": "json_object"}
    )
    assert [block["text"] for block in alone["system"]] == [JSON_INSTRUCTION]
    assert "system" not in translate(
        messages=[{"role": "user", "content": "Hi"}], response_format={"type": "text"}
    )


@each_row("strict", [True, False, None])
def test_a_schema_is_adapted_whether_strict_or_not(strict: bool | None) -> None:
    given = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": given, "strict": strict}}
    made = translate(response_format=form)["output_config"]["format"]
    assert made["schema"] == {
        "type": "object",
        "properties": {"n": {"type": "integer", "description": "{minimum: 1}"}},
        "additionalProperties": False,
    }
