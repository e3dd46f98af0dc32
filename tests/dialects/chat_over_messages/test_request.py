"""Chat requests as messages requests: budgets for reasoning. `written.txt` has the mapping."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.dialects.chat.over_messages_request import PASSED
from gateway.dialects.records import Target
from gateway.errors import BadRequest
from tests.dialects.chat_over_messages.kit import (
    EXCHANGE,
    TARGET,
    find_refusal,
    read_request,
    translate,
)

BUDGET = Target("their-model", max_output_tokens=5000, reasoning="budget")
PLAIN = Target("their-model", reasoning="none")
Json = dict[str, Any]


def test_exchange_aims_at_the_messages_api() -> None:
    version = {"anthropic-version": "2023-06-01"}
    assert EXCHANGE.upstream.path == "/messages"
    assert EXCHANGE.upstream.auth_headers("secret") == {"x-api-key": "secret", **version}
    assert EXCHANGE.upstream.auth_headers("") == version


def test_the_upstreams_own_words_pass() -> None:
    own: Json = {
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "top_k": 5,
    }
    assert set(own) == PASSED
    assert translate(**own) == {**translate(), **own}


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
