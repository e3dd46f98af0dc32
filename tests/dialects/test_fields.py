"""The documented tables of fields are true: what is said to be carried, left out or refused is."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest

from gateway.dialects.exchanges import CALLERS, EXCHANGES
from gateway.dialects.records import Target
from gateway.dialects.responses_over_chat.request import SHARED
from gateway.errors import BadRequest
from tests.documents import FIELDS
from tests.support.rows import each_row

Json = dict[str, Any]

FUNCTION: Final[Json] = {"name": "f", "parameters": {"type": "object"}}
TOOL: Final[Json] = {"name": "f", "input_schema": {"type": "object"}}
SAID: Final = [{"role": "user", "content": "Hi"}]
LEAST: Final[dict[str, Json]] = {
    "chat": {"messages": SAID, "tools": [{"type": "function", "function": FUNCTION}]},
    "messages": {"messages": SAID, "tools": [TOOL], "max_tokens": 9000},
    "responses": {"input": SAID, "tools": [{"type": "function", **FUNCTION}]},
}
"""What a request of each dialect has in any case."""
MADE: Final[dict[str, Json]] = {
    "chat": {"response_format": {"type": "json_object"}, "tool_choice": "none"},
    "messages": {"tool_choice": {"type": "none"}, "system": "Be brief."},
    "responses": {"text": {"format": {"type": "json_object"}}, "tool_choice": "none"},
}
SAMPLES: Final[Json] = {
    **dict.fromkeys(("background", "logprobs", "store", "stream"), True),
    **dict.fromkeys(("frequency_penalty", "presence_penalty", "top_k", "top_logprobs"), 1),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), 2000),
    **dict.fromkeys(("temperature", "top_p"), 0.5),
    **dict.fromkeys(("reasoning_effort", "verbosity"), "low"),
    **dict.fromkeys(("service_tier", "truncation"), "auto"),
    **dict.fromkeys(("conversation", "instructions", "model", "speed", "user"), "x"),
    **dict.fromkeys(("previous_response_id", "prompt_cache_key", "safety_identifier"), "x"),
    **{name: {"effort": "low"} for name in ("output_config", "reasoning")},
    **{name: ["x"] for name in ("include", "stop_sequences")},
    **{name: [{**SAID[0], "content": "Ho"}] for name in ("input", "messages")},
    "function_call": "none",
    "functions": [FUNCTION],
    "mcp_servers": [{}],
    "metadata": {"user_id": "x"},
    "modalities": ["text", "audio"],
    "n": 2,
    "parallel_tool_calls": False,
    "stop": "x",
    "stream_options": {"include_obfuscation": False},
    "thinking": {"type": "enabled", "budget_tokens": 2000},
    "thread": {"type": "create"},
    "tools": [],
}
"""A value of each field that asks for something; any object where none is listed."""
TARGET: Final = Target("theirs", takes=SHARED)
CASES: Final = [
    (*pair, fate, name)
    for pair, columns in FIELDS.items()
    for fate, names in zip(("carried", "left out", "refused"), columns, strict=True)
    for name in sorted(names)
]


def write(caller: str, upstream: str, body: Json) -> Json:
    """Return the request that the translation makes."""
    exchange = EXCHANGES[caller][upstream]
    assert exchange.translation is not None
    request = CALLERS[caller].parse_request(orjson.dumps(body))
    return exchange.translation.translate_request(request, TARGET)


@each_row(("caller", "upstream", "fate", "name"), CASES)
def test_a_field_is_treated_as_documented(caller: str, upstream: str, fate: str, name: str) -> None:
    least = {"model": "ours", **LEAST[caller]}
    value = {**SAMPLES, **MADE[caller]}.get(name, {"a": "b"})
    asked = {**least, name: value}
    if fate == "refused":
        with pytest.raises(BadRequest) as caught:
            write(caller, upstream, asked)
        assert caught.value.param == name
    else:
        is_same = write(caller, upstream, asked) == write(caller, upstream, least)
        assert is_same == (fate == "left out")


def test_every_pair_of_unequal_dialects_has_its_row() -> None:
    names = CALLERS.keys()
    assert FIELDS.keys() == {(one, other) for one in names for other in names if one != other}
