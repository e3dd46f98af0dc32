"""Random valid conversations for a chat upstream, and random replies: nothing is lost or moved.

The translations are checked by the models of OpenAI's SDK, and by a reading that does not use
the gateway's code.
"""

from __future__ import annotations

import itertools
import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputParam
from pydantic import TypeAdapter

from tests.dialects.chat.kit import Json, choice
from tests.dialects.messages_over_chat.kit import call, completion, fragment, stream
from tests.dialects.messages_over_chat.test_conversation import check_results
from tests.dialects.responses_over_chat.kit import (
    PATCH,
    PNG,
    SPACE,
    TOOL,
    custom_call,
    function_call,
    message,
    output,
    play_whole,
    read_response,
    text,
    write,
)
from tests.dialects.responses_over_chat.test_reply import read
from tests.support.fuzz import fuzz

_ITEMS: Final[TypeAdapter[Any]] = TypeAdapter(ResponseInputParam)
_MESSAGES: Final[TypeAdapter[Any]] = TypeAdapter(list[ChatCompletionMessageParam])
TOOLS: Final = [TOOL, PATCH, SPACE]
FLAT: Final = {"f": ("", "f"), "ns__f": ("ns", "f"), "patch": ("", "patch"), "ns__c": ("ns", "c")}
SPOKEN: Final = ("reasoning", "content", "refusal")
CUSTOM: Final = ("patch", "ns__c")
words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
inputs = st.dictionaries(words, st.none() | words | st.lists(words, max_size=2), max_size=3)
texts = words | st.lists(words.map(text), min_size=1, max_size=2)


@st.composite
def calls(draw: st.DrawFn, identity: str) -> Json:
    flat = draw(st.sampled_from(sorted(FLAT)))
    namespace, name = FLAT[flat]
    where = {"namespace": namespace} if namespace else {}
    if flat in CUSTOM:
        return custom_call(identity, name, draw(words), **where)
    return function_call(identity, name, arguments=json.dumps(draw(inputs)), **where)


@st.composite
def conversations(draw: st.DrawFn) -> list[Json]:
    """Make items; the calls of a turn are answered behind them, once, in any order."""
    items: list[Json] = []
    count = 0
    for _ in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            items.append(message(draw(st.sampled_from(("system", "developer"))), draw(texts)))
        said = st.lists(words.map(text) | st.just(PNG), min_size=1, max_size=3)
        items.append(message("user", draw(words | said)))
        items += draw(st.lists(st.just({"type": "reasoning", "id": "rs", "summary": []})))
        if draw(st.booleans()):
            items.append(message("assistant", draw(words)))
        asked = [draw(calls(f"c{count + one}")) for one in range(draw(st.integers(0, 3)))]
        count += len(asked)
        items += asked
        for one in draw(st.permutations(asked)):
            kind = f"{one['type']}_output"
            items.append(output(one["call_id"], draw(texts), kind))
    return items


def join(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "\n\n".join(part["text"] for part in content)


def read_items(items: list[Json]) -> tuple[list[str], list[Any]]:
    """Return the leading instructions of a conversation, and the content behind them in order."""
    system: list[str] = []
    facts: list[Any] = []
    for item in items:
        match item["type"]:
            case "message" if item["role"] in {"system", "developer"}:
                content = item["content"]
                said = [content] if isinstance(content, str) else [p["text"] for p in content]
                if facts:
                    facts.append(("system", "\n\n".join(said)))
                else:
                    system += said
            case "message":
                content = item["content"]
                parts = [text(content)] if isinstance(content, str) else content
                facts += [(item["role"], part.get("text")) for part in parts]
            case "reasoning":
                pass
            case "function_call" | "custom_tool_call" as kind:
                name = item.get("namespace", ""), item["name"]
                given = item["input"] if "input" in item else json.loads(item["arguments"])
                facts.append((kind, item["call_id"], name, given))
            case _:
                facts.append(("result", item["call_id"], join(item["output"])))
    return system, facts


def read_chat(messages: list[Json]) -> list[Any]:
    """Return the same content of a chat conversation."""
    facts: list[Any] = []
    for one in messages:
        content = one["content"]
        if one["role"] == "tool":
            facts.append(("result", one["tool_call_id"], content))
            continue
        parts = content if isinstance(content, list) else [text(content)] * bool(content)
        facts += [(one["role"], part.get("text")) for part in parts]
        for asked in one.get("tool_calls", ()):
            function = asked["function"]
            given = json.loads(function["arguments"])
            kind = "custom_tool_call" if function["name"] in CUSTOM else "function_call"
            given = given["input"] if function["name"] in CUSTOM else given
            facts.append((kind, asked["id"], FLAT[function["name"]], given))
    return facts


@fuzz(150)
@given(conversations(), st.booleans())
def test_a_conversation_keeps_text_tools_ids_and_order(items: list[Json], stream: bool) -> None:
    _ITEMS.validate_python(items)
    chat = write(input=items, tools=TOOLS, stream=stream)
    _MESSAGES.validate_python(chat["messages"])
    system, facts = read_items(items)
    first = [("system", "\n\n".join(system))] if system else []
    assert read_chat(chat["messages"]) == first + facts
    check_results(chat["messages"])
    roles = [one["role"] for one in chat["messages"]]
    assert ("assistant", "assistant") not in itertools.pairwise(roles)


@fuzz(60)
@given(
    st.fixed_dictionaries(dict.fromkeys(SPOKEN, words | st.just(""))),
    st.lists(st.tuples(st.sampled_from(sorted(FLAT)), words, inputs), max_size=3),
    st.sampled_from(("stop", "tool_calls", "length", "content_filter")),
    st.integers(1, 5),
)
def test_a_stream_and_a_reply_say_the_same(
    spoken: Json, asked: list[Any], finish: str, size: int
) -> None:
    made = []
    for number, (flat, word, given_input) in enumerate(asked):
        arguments = json.dumps({"input": word} if flat in CUSTOM else given_input)
        made.append(call(f"c{number}", flat, arguments))
    response = read(completion({**spoken, "tool_calls": made}, finish), {"tools": TOOLS})
    pieces: list[Json] = []
    for key in SPOKEN:
        cuts = range(0, len(spoken[key]), size)
        pieces += [choice({key: spoken[key][at : at + size]}) for at in cuts]
    for number, one in enumerate(made):
        name, arguments = one["function"]["name"], one["function"]["arguments"]
        pieces.append(fragment(number, "", id=one["id"], name=name))
        cuts = range(0, len(arguments), size)
        pieces += [fragment(number, arguments[at : at + size]) for at in cuts]
    body = {"stream": True, "tools": TOOLS}
    assert read_response(play_whole(stream(*pieces, finish=finish), body)) == response


@fuzz(100)
@given(st.lists(st.tuples(st.integers(0, 2), words), max_size=12), st.sampled_from(CUSTOM))
def test_calls_may_be_mixed_as_the_upstream_likes(parts: list[Any], custom: str) -> None:
    """Fragments of three calls in any order: each call gets its own."""
    names = ("f", custom, "ns__f")
    inside = ["", "", ""]
    fragments = [fragment(n, "{", id=f"c{n}", name=names[n]) for n in (0, 2)]
    fragments.insert(1, fragment(1, '{"input":"', id="c1", name=custom))
    for number, word in parts:
        inside[number] += word
        fragments.append(fragment(number, json.dumps(word)[1:-1]))
    fragments.append(fragment(1, '"}'))
    body = {"stream": True, "tools": TOOLS}
    response = read_response(play_whole(stream(*fragments, finish="tool_calls"), body))
    first, second, third = response["output"]
    assert second["input"] == inside[1]
    told = [json.loads(f'"{one["arguments"][1:]}"') for one in (first, third)]
    assert told == [inside[0], inside[2]]
