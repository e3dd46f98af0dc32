"""Fields of messages requests that a chat upstream lacks are refused by name, without content."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gateway.errors import BadRequest
from tests.dialects.chat.kit import Json
from tests.dialects.messages_over_chat.requests import (
    PDF,
    PNG,
    TOOL,
    assistant,
    tool_result,
    tool_use,
    user,
    write,
)
from tests.support.rows import each_row

DEEP: Any = {}
for _ in range(300):
    DEEP = {"a": DEEP}

REFUSED: list[tuple[str, Json]] = [
    ("top_k", {"top_k": 0}),
    ("top_k", {"top_k": 40}),
    ("max_tokens", {"max_tokens": 0}),
    ("speed", {"speed": "fast"}),
    ("container", {"container": "c1"}),
    ("mcp_servers", {"mcp_servers": [{"type": "url", "url": "https://x"}]}),
    ("fallbacks", {"fallbacks": [{"model": "m"}]}),
    ("n", {"n": 1}),
    ("(a field)", {"what is\nthis": 1}),
    ("stop_sequences", {"stop_sequences": ["a"] * 5}),
    ("stop_sequences", {"stop_sequences": "a"}),
    ("stop_sequences.0", {"stop_sequences": [1]}),
    ("system.0", {"system": [{"type": "image", "source": PNG}]}),
    ("messages.0.content.0", {"messages": [{"role": "system", "content": [PNG]}]}),
    ("messages.0.content", {"messages": [{"role": "user"}]}),
    ("messages.0.content.0", {"messages": [user({"type": "search_result", "content": []})]}),
    ("messages.0.content.0", {"messages": [user({"type": "container_upload", "file_id": "f"})]}),
    ("messages.0.content.0.type", {"messages": [user({"text": "x"})]}),
    ("messages.0.content.0.text", {"messages": [user({"type": "text"})]}),
    ("messages.0.content.0.source", {"messages": [user({"type": "image", "source": {"type": "file", "file_id": "f"}})]}),
    ("messages.0.content.0.source", {"messages": [user({"type": "document", "source": {"type": "file", "file_id": "f"}})]}),
    ("messages.0.content.0.source", {"messages": [user({"type": "document", "source": {"type": "url", "url": "https://x"}})]}),
    ("messages.0.content.0.source", {"messages": [user({"type": "document"})]}),
    ("messages.0.content.0.source.data", {"messages": [user({"type": "image", "source": {"type": "base64", "media_type": "image/png"}})]}),
    ("messages.0.content.0.source.media_type", {"messages": [user({"type": "document", "source": {**PDF, "media_type": "application/zip"}})]}),
    ("messages.0.content.0.tool_use_id", {"messages": [user({"type": "tool_result"})]}),
    ("messages.0.content.0.content.0", {"messages": [user(tool_result(content=[{"type": "search_result"}]))]}),
    ("messages.0.content.0", {"messages": [assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})]}),
    ("messages.0.content.0", {"messages": [assistant({"type": "image", "source": PNG})]}),
    ("messages.0.content.0.name", {"messages": [assistant(tool_use(name="n" * 65))]}),
    ("messages.0.content.0.input", {"messages": [assistant(tool_use(input="{}"))]}),
    ("messages.0", {"messages": ["hi"]}),
    ("messages", {"messages": None}),
    ("tools.0.type", {"tools": [{"type": "web_search_20260318", "name": "web_search"}]}),
    ("tools.1.type", {"tools": [TOOL, {"type": "bash_20250124", "name": "bash"}]}),
    ("tools.0.name", {"tools": [{**TOOL, "name": "n" * 65}]}),
    ("tools.0.input_schema", {"tools": [{"name": "f"}]}),
    ("tools.0.description", {"tools": [{**TOOL, "description": 1}]}),
    ("tools.0.allowed_callers", {"tools": [{**TOOL, "allowed_callers": ["code_execution_20260120"]}]}),
    ("tools.0.novelty", {"tools": [{**TOOL, "novelty": True}]}),
    ("tools", {"tools": {}}),
    ("tool_choice.type", {"tool_choice": {"type": "some"}, "tools": [TOOL]}),
    ("tool_choice.type", {"tool_choice": {"type": ["any"]}, "tools": [TOOL]}),
    ("tool_choice.name", {"tool_choice": {"type": "tool"}, "tools": [TOOL]}),
    ("output_config.task_budget", {"output_config": {"task_budget": {"total": 1}}}),
    ("output_config.effort", {"output_config": {"effort": "most"}}),
    ("output_config.format.type", {"output_config": {"format": {"type": "regex"}}}),
    ("output_config.format.schema", {"output_config": {"format": {"type": "json_schema"}}}),
    ("output_config", {"output_config": "high"}),
    ("thinking.type", {"thinking": {"type": "deep"}}),
    ("thinking.type", {"thinking": {}}),
    ("thinking.budget_tokens", {"thinking": {"type": "enabled"}}),
    ("thinking.until", {"thinking": {"type": "adaptive", "until": 1}}),
    ("thinking", {"thinking": True}),
    ("metadata", {"metadata": "m"}),
]  # fmt: skip


@each_row(("param", "fields"), REFUSED)
def test_what_cannot_be_carried_over_is_refused_by_name(param: str, fields: Json) -> None:
    with pytest.raises(BadRequest) as caught:
        write(**fields)
    assert caught.value.param == param
    assert caught.value.message.startswith(f"{param}: ")


def test_no_content_is_repeated_in_an_error() -> None:
    """A type that is no word may be a prompt in the wrong field."""
    with pytest.raises(BadRequest) as caught:
        write(messages=[user({"type": "my secret prompt"})])
    assert "secret" not in caught.value.message


def test_arguments_nested_too_deeply_to_write_are_the_callers_fault() -> None:
    use = tool_use(input=DEEP)
    try:
        orjson.dumps(DEEP)
    except TypeError:
        with pytest.raises(BadRequest, match="deeply"):
            write(messages=[assistant(use)])
    else:
        raise AssertionError("the example is not deep enough")


def test_documents_within_documents_beyond_pythons_stack_are_the_callers_fault() -> None:
    content: list[Json] = [{"type": "text", "text": "x"}]
    for _ in range(500):
        content = [{"type": "document", "source": {"type": "content", "content": content}}]
    with pytest.raises(BadRequest, match="deeply"):
        write(messages=[user(*content)])
