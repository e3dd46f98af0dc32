"""Chat requests as Responses requests: shared fields, reasoning, tools. `written.txt` has the mapping."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.dialects.chat.over_responses_request import SHARED
from tests.dialects.chat_over_responses.kit import TARGET, find_refusal, translate

Json = dict[str, Any]
PLAIN = replace(TARGET, reasoning="none")


SAME: Json = {
    "metadata": {"a": "b"},
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit"},
    "prompt_cache_retention": "24h",
    "safety_identifier": "s",
    "service_tier": "flex",
    "temperature": 0.5,
    "top_p": 0.9,
    "user": "u",
}


def test_fields_of_both_dialects_pass() -> None:
    assert set(SAME) == SHARED
    assert translate(**SAME) == {**translate(), **SAME}


def test_a_model_that_does_not_reason_is_not_asked_to() -> None:
    for word in ("none", "medium"):
        assert translate(PLAIN, reasoning_effort=word) == translate()
    assert find_refusal(PLAIN, reasoning_effort="high") == "reasoning_effort"
    assert find_refusal(PLAIN, reasoning_effort=[]) == "reasoning_effort"
