"""Any valid chat conversation keeps its content; any reply says the same as JSON and as a stream."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat_over_responses import CHAT_OVER_RESPONSES
from tests.dialects.chat.kit import check_stream, make_dice, play, random_slices
from tests.dialects.chat_over_messages.kit import make_context
from tests.dialects.chat_over_responses.kit import (
    STARTED,
    end,
    frame,
    make_usage,
    open_stream,
    translate,
    translate_messages,
    write_items,
)
from tests.dialects.chat_over_responses.test_stream import gather
from tests.support.fuzz import fuzz

Json = dict[str, Any]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
filled = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
arguments = st.dictionaries(texts, st.integers() | texts | st.lists(texts), max_size=3)
urls = st.sampled_from(["https://example.com/a.png", "data:image/png;base64,AAAA"])
text_parts = st.builds(lambda text: {"type": "text", "text": text}, filled)
picture_parts = st.builds(
    lambda url: {"type": "image_url", "image_url": {"url": url, "detail": "low"}}, urls
)
refusals = st.builds(lambda text: {"type": "refusal", "refusal": text}, filled)
content = st.lists(text_parts, min_size=1, max_size=3)
rich_content = st.lists(text_parts | picture_parts, min_size=1, max_size=4)
CONTENTS = {"user": rich_content, "assistant": st.lists(text_parts | refusals, min_size=1)}


@st.composite
def spoken(draw: st.DrawFn) -> list[Json]:
    role = draw(st.sampled_from(["system", "developer", "user", "assistant"]))
    return [{"role": role, "content": draw(CONTENTS.get(role, content))}]


@st.composite
def called(draw: st.DrawFn) -> list[Json]:
    """Make an assistant's calls, of functions and custom tools, and their results in any order."""
    ids = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    calls: list[Json] = []
    for identity in ids:
        function = {"name": draw(names), "arguments": json.dumps(draw(arguments))}
        tool = {"name": draw(names), "input": draw(texts)}
        kind, held = draw(st.sampled_from([("function", function), ("custom", tool)]))
        calls.append({"id": identity, "type": kind, kind: held})
    results = [
        {"role": "tool", "tool_call_id": identity, "content": draw(texts | rich_content)}
        for identity in draw(st.permutations(ids))
    ]
    return [{"role": "assistant", "tool_calls": calls}, *results]


conversations = st.builds(
    lambda parts: [message for part in parts for message in part],
    st.lists(spoken() | called(), min_size=1, max_size=6),
)


def read_back(items: list[Json]) -> list[Json]:
    """Write items as the chat messages that they came from."""
    messages: list[Json] = []
    for item in items:
        match item:
            case {"type": "message"}:
                parts = [read_part(part) for part in item["content"]]
                messages.append({"role": item["role"], "content": parts})
            case {"call_id": identity, "output": output}:
                held = output if isinstance(output, str) else [read_part(part) for part in output]
                messages.append({"role": "tool", "tool_call_id": identity, "content": held})
            case {"call_id": identity, "name": name}:
                kind, key = ("custom", "input") if "input" in item else ("function", "arguments")
                call = {"id": identity, "type": kind, kind: {"name": name, key: item[key]}}
                if not messages or "tool_calls" not in messages[-1]:
                    messages.append({"role": "assistant", "tool_calls": []})
                messages[-1]["tool_calls"].append(call)
            case _:
                raise AssertionError(item)
    return messages


def read_part(part: Json) -> Json:
    match part:
        case {"type": "refusal"}:
            return part
        case {"image_url": url, "detail": detail}:
            return {"type": "image_url", "image_url": {"url": url, "detail": detail}}
        case _:
            return {"type": "text", "text": part["text"]}


@fuzz(100)
@given(conversations)
def test_any_conversation_comes_back_as_it_was(conversation: list[Json]) -> None:
    assert read_back(translate_messages(*conversation)) == conversation


@pytest.mark.slow
@fuzz(100)
@given(conversations)
def test_taking_instructions_out_loses_none(conversation: list[Json]) -> None:
    messages = [*conversation, {"role": "user", "content": "And so?"}]
    made, all_items = translate(messages=messages), translate_messages(*messages)
    lifted = all_items[: len(all_items) - len(made["input"])]
    assert made["input"] == all_items[len(lifted) :]
    words = [part["text"] for item in lifted for part in item["content"]]
    assert made.get("instructions", "") == "\n\n".join(words)
    assert made["input"][0].get("role") not in {"system", "developer"}


said_parts = st.lists(
    st.builds(lambda text: {"type": "output_text", "text": text}, texts) | refusals, max_size=3
)
summaries = st.lists(
    st.builds(lambda text: {"type": "summary_text", "text": text}, texts), max_size=3
)
items = st.one_of(
    st.builds(lambda parts: {"type": "message", "content": parts}, said_parts),
    st.builds(lambda parts: {"type": "reasoning", "summary": parts}, summaries),
    st.builds(
        lambda identity, name, held: {
            "type": "function_call",
            "call_id": identity,
            "name": name,
            "arguments": json.dumps(held),
        },
        names,
        names,
        arguments,
    ),
    st.builds(
        lambda identity, name, held: {
            "type": "custom_tool_call",
            "call_id": identity,
            "name": name,
            "input": held,
        },
        names,
        names,
        texts,
    ),
)
details = st.sampled_from(
    [None, {"reason": "max_output_tokens"}, {"reason": "content_filter"}, {"reason": "new"}]
)


@fuzz(100)
@given(st.lists(items, max_size=5), st.sampled_from(["completed", "incomplete"]), details)
def test_a_stream_says_what_the_whole_reply_says_in_any_slicing(
    output: list[Json], status: str, detail: Json | None
) -> None:
    reply = {"status": status, "output": output, "incomplete_details": detail}
    (choice,) = CHAT_OVER_RESPONSES.translate_reply(reply, make_context(), make_usage(None))[
        "choices"
    ]
    body = frame(*STARTED, *write_items(*output), end(status, {"input_tokens": 1, "output_tokens": 2}, incomplete_details=detail))  # fmt: skip
    whole = play(open_stream(), [body])
    check_stream(whole.chunks, usage=False)
    keys, calls, finish = gather(whole)
    message = choice["message"]
    assert keys == {key: message.get(key) or "" for key in keys}
    assert calls == [
        [call["id"], *call[call["type"]].values()] for call in message.get("tool_calls", [])
    ]
    assert finish == choice["finish_reason"]
    for _ in range(3):
        assert play(open_stream(), random_slices(body, make_dice())) == whole
