"""Messages tools as chat tools: which of them may be called."""

from __future__ import annotations

import pytest

from gateway.errors import BadRequest
from tests.dialects.chat.kit import Json
from tests.dialects.messages_over_chat.requests import (
    TOOL,
    write,
)
from tests.support.rows import each_row


@each_row(
    ("choice", "expected"),
    [
        ({"type": "auto"}, {"tool_choice": "auto"}),
        ({"type": "any"}, {"tool_choice": "required"}),
        ({"type": "none"}, {"tool_choice": "none"}),
        ({"type": "tool", "name": "f"},
         {"tool_choice": {"type": "function", "function": {"name": "f"}}}),
        ({"type": "auto", "disable_parallel_tool_use": True},
         {"tool_choice": "auto", "parallel_tool_calls": False}),
        ({"type": "none", "disable_parallel_tool_use": True}, {"tool_choice": "none"}),
        ({"type": "any", "disable_parallel_tool_use": False}, {"tool_choice": "required"}),
    ],
)  # fmt: skip
def test_tool_choice(choice: Json, expected: Json) -> None:
    assert write(tools=[TOOL], tool_choice=choice) == {**write(tools=[TOOL]), **expected}


def test_tool_choice_without_tools_is_left_out_where_it_asks_for_none() -> None:
    assert write(tool_choice={"type": "auto", "disable_parallel_tool_use": True}) == write()
    with pytest.raises(BadRequest, match="tool_choice"):
        write(tool_choice={"type": "any"})
