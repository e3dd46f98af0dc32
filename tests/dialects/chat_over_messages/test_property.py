"""Any valid chat conversation keeps its content; any stream of events keeps the rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.chat.kit import check_stream, make_dice, play, random_slices
from tests.dialects.chat_over_messages.kit import check_request, frame_line, open_stream, translate
from tests.support.fuzz import fuzz, json_values

Json = dict[str, Any]
Said = tuple[str, ...]
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
arguments = st.dictionaries(
    texts, st.integers(-(2**53), 2**53) | texts | st.lists(texts), max_size=3
)
pictures = st.sampled_from(["https://example.com/a.png", "data:image/png;base64,AAAA"])
text_parts = st.builds(lambda text: {"type": "text", "text": text}, texts)
picture_parts = st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, pictures)
content = texts | st.lists(text_parts, min_size=1, max_size=3)
rich_content = content | st.lists(text_parts | picture_parts, min_size=1, max_size=4)


@st.composite
def spoken(draw: st.DrawFn) -> list[Json]:
    role = draw(st.sampled_from(["system", "developer", "user", "assistant"]))
    said = draw(rich_content if role == "user" else content)
    return [{"role": role, "content": said}]


@st.composite
def called(draw: st.DrawFn) -> list[Json]:
    """Make an assistant's calls and their results, in any order."""
    ids = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    calls = [
        {
            "id": identity,
            "type": "function",
            "function": {"name": draw(names), "arguments": json.dumps(draw(arguments))},
        }
        for identity in ids
    ]
    results = [
        {"role": "tool", "tool_call_id": identity, "content": draw(content)}
        for identity in draw(st.permutations(ids))
    ]
    said = draw(st.none() | content)
    return [{"role": "assistant", "content": said, "tool_calls": calls}, *results]


conversations = st.builds(
    lambda parts: [message for part in parts for message in part],
    st.lists(spoken() | called(), max_size=6),
)
ROLES: dict[str, str] = {"developer": "system", "tool": "user"}


def read_chat(messages: list[Json]) -> list[Said]:
    """Return speakers and contents in order; blank text is dropped, nothing else may be."""
    said: list[Said] = []
    for message in messages:
        role = str(ROLES.get(message["role"], message["role"]))
        if message["role"] == "tool":
            inner = read_parts(message["content"])
            said.append((role, "result", message["tool_call_id"], *inner))
        else:
            said += ((role, item) for item in read_parts(message["content"]))
        for call in message.get("tool_calls", []):
            held = json.loads(call["function"]["arguments"])
            said.append((role, "call", call["id"], call["function"]["name"], json.dumps(held)))
    return said


def read_parts(held: Any) -> list[str]:
    if not isinstance(held, list):
        held = [{"type": "text", "text": held or ""}]
    said = [part["text"] if "text" in part else part["image_url"]["url"] for part in held]
    return [one for one in said if one.strip()]


def read_messages(made: Json) -> list[Said]:
    said: list[Said] = [("system", block["text"]) for block in made.get("system", [])]
    for turn in made["messages"]:
        said += ((turn["role"], *read_block(block)) for block in turn["content"])
    return said


def read_block(block: Json) -> Said:
    match block["type"]:
        case "text":
            return (block["text"],)
        case "image":
            source = block["source"]
            url = f"data:{source.get('media_type')};base64,{source.get('data')}"
            return (source.get("url", url),)
        case "tool_use":
            return "call", block["id"], block["name"], json.dumps(block["input"])
        case "tool_result":
            held = block.get("content", [])
            held = [{"type": "text", "text": held}] if isinstance(held, str) else held
            return "result", block["tool_use_id"], *(read_block(inner)[0] for inner in held)
        case kind:
            raise AssertionError(kind)


@fuzz(100)
@given(conversations)
def test_any_conversation_keeps_text_tools_ids_and_order(conversation: list[Json]) -> None:
    messages = [*conversation, {"role": "user", "content": "And so?"}]
    made = translate(messages=messages)
    check_request(made)
    assert read_messages(made) == read_chat(messages)
    check_results(made["messages"])


def check_results(turns: list[Json]) -> None:
    """The results of all calls open the next turn, or the upstream refuses them."""
    called: set[str] = set()
    for turn in turns:
        results = [block.get("tool_use_id") for block in turn["content"]]
        answered = {identity for identity in results[: len(called)] if identity}
        assert answered == called
        assert not any(results[len(called) :])
        called = {block["id"] for block in turn["content"] if block["type"] == "tool_use"}


deltas = st.sampled_from(
    [
        {"type": "text_delta", "text": "a\n"},
        {"type": "text_delta", "text": ""},
        {"type": "thinking_delta", "thinking": "é"},
        {"type": "input_json_delta", "partial_json": "{"},
        {"type": "input_json_delta", "partial_json": ""},
        {"type": "signature_delta", "signature": "s"},
    ]
)
blocks = st.sampled_from(
    [
        {"type": "text", "text": ""},
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "tool_use", "id": "t", "name": "f", "input": {}},
        {"type": "server_tool_use", "id": "s", "name": "g", "input": {}},
    ]
)
indexes = st.integers(0, 3)
usages = st.fixed_dictionaries({}, optional={"input_tokens": indexes, "output_tokens": indexes})
reasons = st.sampled_from([None, "end_turn", "tool_use", "refusal", "new"])
stream_events = st.one_of(
    st.just({"type": "ping"}),
    st.just({"type": "message_start", "message": {"usage": {"input_tokens": 1}}}),
    st.builds(
        lambda index, block: {"type": "content_block_start", "index": index, "content_block": block},
        indexes,
        blocks,
    ),
    st.builds(
        lambda index, delta: {"type": "content_block_delta", "index": index, "delta": delta},
        indexes,
        deltas,
    ),
    st.builds(lambda index: {"type": "content_block_stop", "index": index}, indexes),
    st.builds(
        lambda reason, usage: {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        reasons,
        usages,
    ),
)  # fmt: skip


def write(events: list[Json]) -> bytes:
    return b"".join(frame_line(json.dumps(each).encode(), str(each.get("type"))) for each in events)


@fuzz(100)
@given(st.lists(stream_events, max_size=20), st.booleans())
def test_any_order_of_events_keeps_the_rules_in_any_slicing(
    events: list[Json],
    usage: bool,
) -> None:
    body = write([*events, {"type": "message_stop"}])
    whole = play(open_stream(usage=usage), [body])
    assert whole.complete or whole.failure in {
        "The upstream's stream ended before it began.",
        "The upstream provider's reply is cut short.",
    }
    if whole.complete:
        check_stream(whole.chunks, usage=usage)
    dice = make_dice()
    for _ in range(3):
        assert play(open_stream(usage=usage), random_slices(body, dice)) == whole


kinds = st.sampled_from(
    [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
    ]
)
keys = st.sampled_from(["type", "index", "delta", "usage", "message", "content_block", "text"])
strange_objects = st.dictionaries(
    keys, json_values | st.dictionaries(keys, json_values, max_size=3), max_size=4
)


@pytest.mark.slow
@fuzz(150)
@given(
    st.lists(
        st.builds(lambda kind, held: {"type": kind, **held}, kinds, strange_objects), max_size=8
    )
)
def test_strange_events_are_never_the_gateways_fault(events: list[Json]) -> None:
    played = play(open_stream(usage=True), [write(events)])
    check_stream(played.chunks, usage=True, finished=played.complete)
