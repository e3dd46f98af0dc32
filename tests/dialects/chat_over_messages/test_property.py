"""Any valid chat conversation keeps its content."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.chat_over_messages.kit import check_request, translate
from tests.support.fuzz import fuzz

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
