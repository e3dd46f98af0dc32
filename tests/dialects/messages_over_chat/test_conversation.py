"""Messages conversations as chat messages: thinking of several turns. `written.txt` has the rest."""

from __future__ import annotations

from gateway.dialects.records import Target
from tests.dialects.messages_over_chat.kit import (
    TOOL,
    USER,
    assistant,
    tool_result,
    tool_use,
    user,
    write,
)


def test_thinking_of_consecutive_assistant_turns_is_kept_for_those_who_take_it() -> None:
    turns = [
        assistant({"type": "thinking", "thinking": said, "signature": ""}, tool_use(identity))
        for said, identity in (("a", "t1"), ("b", "t2"))
    ]
    target = Target("theirs", takes=frozenset({"reasoning_content"}))
    results = user(tool_result("t1"), tool_result("t2"))
    written = write(target, messages=[USER, *turns, results], tools=[TOOL])
    assert written["messages"][1]["reasoning_content"] == "a\n\nb"
