"""Messages conversations as chat messages: turns, blocks and results; random ones lose nothing."""

from __future__ import annotations

from typing import Any

from gateway.dialects.chat.writer import FILES_NOTE
from gateway.dialects.records import Target
from tests.dialects.chat.kit import Json
from tests.dialects.messages_over_chat.kit import (
    BILLING,
    CACHED,
    PDF,
    PDF_URL,
    PNG,
    PNG_PART,
    TOOL,
    USER,
    assistant,
    text,
    tool_result,
    tool_use,
    user,
    write,
    write_messages,
)
from tests.support.rows import each_row


@each_row(
    ("system", "content"),
    [
        (None, None),
        ("", None),
        ([], None),
        ("be brief", "be brief"),
        ([text("one", **CACHED), text("two")], "one\n\ntwo"),
        ([BILLING, text("one")], "one"),
        ([BILLING], None),
        ("x-anthropic-billing-header: is what this text is about", "x-anthropic-billing-header: is what this text is about"),
    ],
)  # fmt: skip
def test_system_becomes_one_message_in_front(system: Any, content: str | None) -> None:
    expected = [] if content is None else [{"role": "system", "content": content}]
    assert write_messages(USER, system=system) == [*expected, USER]


@each_row("content", ["now", [text("now")]])
def test_system_within_the_conversation_keeps_its_place(content: Any) -> None:
    later = {"role": "system", "content": content}
    expected = [USER, {"role": "system", "content": "now"}, USER]
    assert write_messages(USER, later, USER) == expected


@each_row(
    ("result", "content"),
    [
        ({}, ""),
        ({"content": None}, ""),
        ({"content": "18 C"}, "18 C"),
        ({"content": [text("18"), text("C", **CACHED)]}, "18\n\nC"),
        ({"content": "gone", "is_error": True}, "Error: gone"),
        ({"is_error": True}, "Error: "),
        ({"content": "18", "is_error": False}, "18"),
        ({"content": [{"type": "tool_reference", "tool_name": "g"}]}, "[Tool found: g]"),
        ({"content": [{"type": "document", "source": {"type": "text", "data": "d"}}]}, "d"),
    ],
)  # fmt: skip
def test_tool_result_becomes_a_tool_message(result: Json, content: str) -> None:
    expected = {"role": "tool", "tool_call_id": "t1", "content": content}
    assert write_messages(user(tool_result(**result))) == [expected]


def test_tool_messages_come_before_what_else_the_user_said() -> None:
    written = write_messages(
        user(text("a"), tool_result("t1", content="1"), text("b")),
        user(tool_result("t2", content="2")),
    )
    assert [one["role"] for one in written] == ["tool", "tool", "user"]
    assert [one["tool_call_id"] for one in written[:2]] == ["t1", "t2"]
    assert written[2]["content"] == [text("a"), text("b")]


def test_images_of_a_result_move_into_a_user_message_and_the_tool_message_says_so() -> None:
    image = {"type": "image", "source": PNG}
    written = write_messages(user(tool_result(content=[text("seen"), image]), text("and?")))
    tool, said = written
    assert tool == {"role": "tool", "tool_call_id": "t1", "content": f"seen\n\n{FILES_NOTE}"}
    label = text("[From the result of tool call t1:]")
    assert said == {"role": "user", "content": [label, PNG_PART, text("and?")]}


def test_assistant_turn() -> None:
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":[1,"ä"]}'}}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    use = {**tool_use(input={"a": [1, "ä"]}), "caller": {"type": "direct"}, **CACHED}
    said = {"role": "assistant", "content": "ab", "tool_calls": [call]}
    expected = [
        ({"role": "assistant", "content": "a"}, {"role": "assistant", "content": "a"}),
        (assistant(thinking, redacted, text("a"), text("b"), use), said),
        (assistant(use), {**said, "content": None}),
        (assistant(text(""), use), {**said, "content": None}),
        (assistant(thinking), {"role": "assistant", "content": ""}),
    ]
    for turn, message in expected:
        assert write_messages(USER, turn) == [USER, message]


def test_consecutive_assistant_turns_are_one_so_that_their_calls_can_be_answered() -> None:
    written = write_messages(
        USER,
        assistant(text("a"), tool_use("t1")),
        assistant(text("b"), tool_use("t2")),
        user(tool_result("t1"), tool_result("t2")),
    )
    assert [one["role"] for one in written] == ["user", "assistant", "tool", "tool"]
    assert written[1]["content"] == "a\n\nb"
    assert [call["id"] for call in written[1]["tool_calls"]] == ["t1", "t2"]


@each_row(
    ("block", "parts"),
    [
        (text("a", citations=None, **CACHED), "a"),
        ({"type": "image", "source": PNG, **CACHED}, [PNG_PART]),
        ({"type": "image", "source": {"type": "url", "url": "https://x/y.png"}},
         [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]),
        ({"type": "document", "source": PDF, "citations": {"enabled": True}},
         [{"type": "file", "file": {"filename": "document.pdf", "file_data": PDF_URL}}]),
        ({"type": "document", "source": PDF, "title": "a.pdf", "context": "draft"},
         [text("draft"), {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF_URL}}]),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}, "d"),
        ({"type": "document", "title": "T", "context": "C",
          "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
         [text("T\nC"), text("d")]),
        ({"type": "document",
          "source": {"type": "content", "content": [text("d"), {"type": "image", "source": PNG}]}},
         [text("d"), PNG_PART]),
        ({"type": "document", "source": {"type": "content", "content": "d"}}, "d"),
    ],
)  # fmt: skip
def test_user_blocks(block: Json, parts: Any) -> None:
    assert write_messages(user(block)) == [{"role": "user", "content": parts}]


def test_several_user_blocks_keep_their_order() -> None:
    written = write_messages(user(text("a"), {"type": "image", "source": PNG}, text("b")))
    assert written == [{"role": "user", "content": [text("a"), PNG_PART, text("b")]}]


def test_thinking_of_consecutive_assistant_turns_is_kept_for_those_who_take_it() -> None:
    turns = [
        assistant({"type": "thinking", "thinking": said, "signature": ""}, tool_use(identity))
        for said, identity in (("a", "t1"), ("b", "t2"))
    ]
    target = Target("theirs", takes=frozenset({"reasoning_content"}))
    results = user(tool_result("t1"), tool_result("t2"))
    written = write(target, messages=[USER, *turns, results], tools=[TOOL])
    assert written["messages"][1]["reasoning_content"] == "a\n\nb"
