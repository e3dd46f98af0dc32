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

from gateway.dialects.chat import over_messages_request as to_messages
from gateway.dialects.chat import over_responses_request as to_responses
from tests.dialects.chat_over_messages import kit as messages
from tests.dialects.chat_over_responses import kit as responses
from tests.support.rows import each_row

PAIRS: Final[list[tuple[Any, ModuleType]]] = [(messages, to_messages), (responses, to_responses)]
each_pair = each_row(("kit", "module"), PAIRS)
each_kit = each_row("kit", [messages, responses])
TOOL: Final = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


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
