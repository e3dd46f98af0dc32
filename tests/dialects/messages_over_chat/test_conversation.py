"""Messages conversations as chat messages: turns, blocks and results; random ones lose nothing."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from gateway.dialects.chat.writer import FILES_NOTE
from gateway.dialects.exchanges import CALLERS
from gateway.dialects.records import Target
from tests.dialects.chat.kit import MODEL, Json
from tests.dialects.messages_over_chat.kit import (
    BILLING,
    CACHED,
    EXCHANGE,
    PDF,
    PDF_URL,
    PNG,
    PNG_PART,
    TARGET,
    TOOL,
    USER,
    assistant,
    make_request,
    text,
    tool_result,
    tool_use,
    user,
    write,
    write_messages,
)
from tests.support.fuzz import fuzz
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


_MESSAGES: Final[TypeAdapter[Any]] = TypeAdapter(list[ChatCompletionMessageParam])
IMAGE: Final = {"type": "image", "source": PNG}
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
integers = st.integers(-(2**53), 2**53)
inputs = st.dictionaries(words, st.none() | integers | words | st.lists(words, max_size=2), max_size=3)  # fmt: skip


@st.composite
def conversations(draw: st.DrawFn) -> list[Json]:
    """Make turns of user and assistant; each call is answered in the next turn, once."""
    turns: list[Json] = []
    calls = 0
    for _ in range(draw(st.integers(1, 4))):
        due = [] if not turns else uses_of(turns[-1])
        results = []
        for use in draw(st.permutations(due)):
            content = draw(words | st.lists(words.map(text), min_size=1, max_size=2))
            results.append({"type": "tool_result", "tool_use_id": use["id"], "content": content})
        said = draw(st.lists(words.map(text) | st.just(IMAGE), min_size=not results, max_size=3))
        turns.append({"role": "user", "content": results + said})
        if draw(st.booleans()):
            turns.append({"role": "system", "content": draw(words)})
        blocks = draw(st.lists(words.map(text), min_size=1, max_size=2))
        for _ in range(draw(st.integers(0, 3))):
            calls += 1
            name, given_input = draw(names), draw(inputs)
            use = {"type": "tool_use", "id": f"t{calls}", "name": name, "input": given_input}
            blocks.append(use)
        turns.append({"role": "assistant", "content": blocks})
    return turns


def uses_of(turn: Json) -> list[Json]:
    if turn["role"] != "assistant":
        return []
    return [block for block in turn["content"] if block["type"] == "tool_use"]


def read_turns(turns: list[Json]) -> list[Any]:
    """Return the content of a messages conversation, in order: speakers, texts, calls, results."""
    facts: list[Any] = []
    for turn in turns:
        content = turn["content"]
        blocks = [text(content)] if isinstance(content, str) else content
        facts += [
            ("result", block["tool_use_id"], join(block["content"]))
            for block in blocks
            if block["type"] == "tool_result"
        ]
        facts += [("image",) for block in blocks if block["type"] == "image"]
        said = "".join(block["text"] for block in blocks if block["type"] == "text")
        facts += [(turn["role"], said)] * bool(said)
        facts += [
            ("call", block["id"], block["name"], block["input"])
            for block in blocks
            if block["type"] == "tool_use"
        ]
    return facts


def join(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "\n\n".join(part["text"] for part in content)


def read_chat(messages: list[Json]) -> list[Any]:
    """Return the same content of a chat conversation."""
    facts: list[Any] = []
    for message in messages:
        content = message["content"]
        if message["role"] == "tool":
            facts.append(("result", message["tool_call_id"], content))
            continue
        parts = [text(content or "")] if not isinstance(content, list) else content
        facts += [("image",) for part in parts if part["type"] == "image_url"]
        said = "".join(part["text"] for part in parts if part["type"] == "text")
        facts += [(message["role"], said)] * bool(said)
        for call in message.get("tool_calls", ()):
            function = call["function"]
            facts.append(("call", call["id"], function["name"], json.loads(function["arguments"])))
    return facts


def write_body(body: Json) -> bytes:
    return EXCHANGE.write_request(make_request(body), TARGET).data


@fuzz(100)
@given(conversations(), st.booleans())
def test_a_conversation_keeps_text_tools_ids_and_order(turns: list[Json], stream: bool) -> None:
    body = {"model": MODEL, "max_tokens": 5, "messages": turns, "stream": stream}
    written = write_body(body)
    chat = json.loads(written)
    _MESSAGES.validate_python(chat["messages"])
    CALLERS["chat"].parse_request(written)
    assert read_chat(chat["messages"]) == read_turns(turns)
    check_results(chat["messages"])


def check_results(messages: list[Json]) -> None:
    """Chat upstreams demand that each call is answered before anything else is said."""
    due: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            due.remove(message["tool_call_id"])
            continue
        assert not due
        due = {call["id"] for call in message.get("tool_calls", ())}
