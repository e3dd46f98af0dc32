"""Random valid conversations for a chat upstream: text, tools, ids and order are kept.

The translations are checked by the models of OpenAI's SDK, and by a reading that does not use
the gateway's code.
"""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from gateway.dialects.exchanges import CALLERS
from tests.dialects.chat.kit import MODEL, Json
from tests.dialects.messages_over_chat.kit import EXCHANGE, TARGET, make_request
from tests.support.fuzz import fuzz

_MESSAGES: Final[TypeAdapter[Any]] = TypeAdapter(list[ChatCompletionMessageParam])
PNG: Final = {"type": "base64", "media_type": "image/png", "data": "iVBO"}
IMAGE: Final = {"type": "image", "source": PNG}
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,64}", fullmatch=True)
integers = st.integers(-(2**53), 2**53)
inputs = st.dictionaries(words, st.none() | integers | words | st.lists(words, max_size=2), max_size=3)  # fmt: skip


def text(said: str) -> Json:
    return {"type": "text", "text": said}


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


def write(body: Json) -> bytes:
    return EXCHANGE.write_request(make_request(body), TARGET).data


@fuzz(100)
@given(conversations(), st.booleans())
def test_a_conversation_keeps_text_tools_ids_and_order(turns: list[Json], stream: bool) -> None:
    body = {"model": MODEL, "max_tokens": 5, "messages": turns, "stream": stream}
    written = write(body)
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
