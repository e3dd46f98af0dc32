"""Chat requests to upstreams of other dialects: what both translations must do alike.

What is peculiar to a dialect is tested in the folder of its translation.
"""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any, Final

from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from gateway.dialects.chat_over_messages import request as to_messages
from gateway.dialects.chat_over_responses import request as to_responses
from tests.dialects.chat.kit import Json
from tests.dialects.chat_over_messages import kit as messages
from tests.dialects.chat_over_responses import kit as responses
from tests.support.rows import each_row

PAIRS: Final[list[tuple[Any, ModuleType]]] = [(messages, to_messages), (responses, to_responses)]
each_pair = each_row(("kit", "module"), PAIRS)
each_kit = each_row("kit", [messages, responses])
TOOL: Final = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
HARMLESS: Final = {
    "metadata": {"a": "b"},
    "prompt_cache_options": {"mode": "explicit"},
    "prompt_cache_retention": "24h",
    "seed": 7,
    "stream_options": {"include_usage": True, "include_obfuscation": False},
    "verbosity": "low",
}


@each_pair
def test_every_field_of_the_chat_schema_is_in_one_table(kit: Any, module: Any) -> None:
    """A table has no other field: a name that the SDK adds must be decided on here."""
    del kit
    schema = {
        *CompletionCreateParamsNonStreaming.__annotations__,
        *CompletionCreateParamsStreaming.__annotations__,
    }
    tables = [*module.CARRIED, *module.DROPPED, *module.REFUSED]
    assert sorted(tables) == sorted(schema)
    assert not module.PASSED & schema


@each_pair
def test_fields_at_their_default_and_harmless_ones_are_left_out(kit: Any, module: Any) -> None:
    plain = kit.translate()
    for name, values in module.REFUSED.items():
        for value in (None, *values):
            assert kit.translate(**{name: value}) == plain
    for name in module.DROPPED:
        assert kit.translate(**{name: HARMLESS[name]}) == plain


@each_kit
@each_row(
    ("body", "field"),
    [
        ({"n": 2}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logit_bias": {"50256": -100}}, "logit_bias"),
        ({"audio": {"voice": "alloy", "format": "mp3"}}, "audio"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"prediction": {"type": "content", "content": "x"}}, "prediction"),
        ({"store": True}, "store"),
        ({"moderation": {"model": "m"}}, "moderation"),
        ({"frequency_penalty": 0.1}, "frequency_penalty"),
        ({"presence_penalty": -1}, "presence_penalty"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"chat_template_kwargs": {}}, "chat_template_kwargs"),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"response_format": {"type": "grammar"}}, "response_format.type"),
        ({"response_format": {"schema": {}}}, "response_format.type"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
         "response_format.json_schema.schema"),
        ({"tools": "all"}, "tools"),
        ({"tools": ["f"]}, "tools[0]"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": []}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": "x"}}]},
         "tools[0].function.parameters"),
        ({"functions": [{"name": 3}]}, "functions[0].name"),
        ({"tools": [TOOL], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"tools": [TOOL], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"name": "f"}}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, "tool_choice"),
        ({"function_call": {"name": "f"}}, "function_call"),
    ],
)  # fmt: skip
def test_fields_without_a_counterpart_are_refused_by_name(kit: Any, body: Json, field: str) -> None:
    assert kit.find_refusal(**body) == field


def said(*parts: Json, role: str = "user") -> list[Json]:
    return [{"role": role, "content": [*parts]}]


def called(call: Json) -> list[Json]:
    return [{"role": "assistant", "content": None, "tool_calls": [call]}]


CALL: Final = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKED: Final = {"role": "assistant", "content": None, "function_call": {"name": "f"}}
ANSWER: Final = {"role": "function", "name": "f", "content": "x"}


@each_kit
@each_row(
    ("messages", "field"),
    [
        (said({"type": "refusal", "refusal": "x"}), "messages[0].content[0].type"),
        (said({"type": "image_url"}, role="system"), "messages[0].content[0].type"),
        (said({"type": "file"}, role="developer"), "messages[0].content[0].type"),
        (said({"type": "image_url"}, role="assistant"), "messages[0].content[0].type"),
        (said({"type": "refusal"}, role="assistant"), "messages[0].content[0].refusal"),
        (said({"type": "image_url"}), "messages[0].content[0].image_url"),
        (said({"type": "image_url", "image_url": {}}), "messages[0].content[0].image_url.url"),
        (said({"type": "image_url", "image_url": {"url": ""}}), "messages[0].content[0].image_url.url"),
        (said({"type": "file", "file": "x"}), "messages[0].content[0].file"),
        (said({"type": "file", "file": None}), "messages[0].content[0].file"),
        (said({"type": "file", "file": {}}), "messages[0].content[0].file.file_data"),
        (said({"type": "file", "file": {"file_id": "f"}}), "messages[0].content[0].file.file_id"),
        ([{"role": "assistant", "content": "a", "audio": {"id": "x"}}], "messages[0].audio"),
        ([{"role": "assistant", "content": None}], "messages"),
        (called({**CALL, "type": "search"}), "messages[0].tool_calls[0].type"),
        (called({**CALL, "id": ""}), "messages[0].tool_calls[0].id"),
        (called({**CALL, "function": None}), "messages[0].tool_calls[0].function"),
        (called({**CALL, "function": {"name": ""}}), "messages[0].tool_calls[0].function.name"),
        (called({**CALL, "function": {"name": "f", "arguments": {}}}),
         "messages[0].tool_calls[0].function.arguments"),
        ([{**ASKED, "function_call": "f"}], "messages[0].function_call"),
        ([{"role": "tool", "content": "x"}], "messages[0].tool_call_id"),
        ([{"role": "tool", "content": "x", "tool_call_id": 7}], "messages[0].tool_call_id"),
        ([{"role": "function", "content": "x"}], "messages[0].name"),
        ([ANSWER], "messages[0].name"),
        ([ASKED, ANSWER, ANSWER], "messages[2].name"),  # a function's call has one result
    ],
)  # fmt: skip
def test_what_a_conversation_cannot_carry_over_is_refused_by_name(
    kit: Any, messages: list[Json], field: str
) -> None:
    assert kit.refuse(*messages) == field


@each_kit
@each_row(
    "body", [{}, {"tools": {}}, {"tools": [], "tool_choice": "auto"}, {"tool_choice": "none"}]
)
def test_nothing_is_said_of_no_tools(kit: Any, body: Json) -> None:
    assert kit.translate(**body, parallel_tool_calls=False) == kit.translate()


@each_kit
def test_the_callers_request_is_left_as_it_was(kit: Any) -> None:
    """The next route may use another dialect."""
    request = kit.read_request(
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "a"}]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "a"}]},
            {"role": "user", "content": "b"},
        ],
        tools=[TOOL],
        parallel_tool_calls=False,
        reasoning_effort="low",
        metadata={"a": "b"},
    )
    before = json.dumps(request.body)
    kit.TRANSLATION.translate_request(request, kit.TARGET)
    assert json.dumps(request.body) == before
