"""Random conversations from every caller to providers of every other dialect: nothing is lost or moved.

The requests that are made are checked by the SDKs' own types, and by readings that do not use the
gateway's code.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter

from gateway.dialects.wire.records import Target
from gateway.dialects.wire.seals import tag_provider
from tests.dialects.chat.kit import make_context, play
from tests.dialects.rules import add_up
from tests.dialects.rules import check_messages_request as check_messages
from tests.dialects.rules import check_responses_request as check_responses
from tests.support.extras import need_extra
from tests.support.formats import CALLERS, EXCHANGES
from tests.support.fuzz import fuzz
from tests.support.messages import frames, make_events, make_message
from tests.support.rows import each_row

Json = dict[str, Any]
Fact = tuple[Any, ...]
"""A speaker and a text, `image`, `call` with id, name and input, or `result` with id and text."""
PNG: Final = "data:image/png;base64,iVBO"
_CHAT: Final[TypeAdapter[Any]] = TypeAdapter(list[ChatCompletionMessageParam])
PAIRS: Final = list(itertools.permutations(CALLERS, 2))

words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=12)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
inputs = st.dictionaries(
    words, st.none() | st.integers(-(2**53), 2**53) | words | st.lists(words), max_size=3
)
parts = words.map(lambda said: ("user", said)) | st.just(("image",))


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Fact]]:
    """Make turns, each the facts of one speaker; calls are answered in the next turn, in any order."""
    turns: list[list[Fact]] = [[("system", said)] for said in draw(st.lists(words, max_size=2))]
    due: list[Fact] = []
    for number in range(draw(st.integers(1, 4))):
        results = [("result", call[1], draw(words)) for call in draw(st.permutations(due))]
        turns.append([*results, *draw(st.lists(parts, min_size=not results, max_size=3))])
        if draw(st.booleans()):
            turns.append([("system", draw(words))])
        count = draw(st.integers(0, 3))
        due = [("call", f"c{number}_{at}", draw(names), draw(inputs)) for at in range(count)]
        said = draw(st.lists(words, min_size=not due, max_size=1))
        turns.append([*(("assistant", one) for one in said), *due])
    answers: list[Fact] = [("result", call[1], "x") for call in due]
    return [*turns, [*answers, ("user", "So?")]]


def write_part(fact: Fact, text: str = "text") -> Json:
    return {"type": text, "text": fact[1]} if fact != ("image",) else IMAGES[text]


IMAGES: Final[dict[str, Json]] = {
    "text": {"type": "image_url", "image_url": {"url": PNG}},
    "input_text": {"type": "input_image", "image_url": PNG, "detail": "auto"},
}


def write_chat(turns: list[list[Fact]]) -> Iterator[Json]:
    for turn in turns:
        calls = [
            {"id": fact[1], "type": "function", "function": {"name": fact[2], "arguments": json.dumps(fact[3])}}
            for fact in turn
            if fact[0] == "call"
        ]  # fmt: skip
        said = [write_part(fact) for fact in turn if fact[0] not in {"call", "result"}]
        for fact in turn:
            if fact[0] == "result":
                yield {"role": "tool", "tool_call_id": fact[1], "content": fact[2]}
        role = "assistant" if calls else turn[-1][0] if turn[-1][0] != "image" else "user"
        if calls:
            yield {"role": role, "content": said or None, "tool_calls": calls}
        elif said:
            yield {"role": role, "content": said}


def write_messages(turns: list[list[Fact]]) -> Iterator[Json]:
    for turn in turns:
        blocks: list[Json] = []
        for fact in turn:
            match fact:
                case "call", identity, name, given:
                    blocks.append(
                        {"type": "tool_use", "id": identity, "name": name, "input": given}
                    )
                case "result", identity, said:
                    blocks.append({"type": "tool_result", "tool_use_id": identity, "content": said})
                case ("image",):
                    source = {"type": "base64", "media_type": "image/png", "data": "iVBO"}
                    blocks.append({"type": "image", "source": source})
                case _:
                    blocks.append(write_part(fact))
        speakers = {"call": "assistant", "result": "user", "image": "user"}
        yield {"role": speakers.get(turn[0][0], turn[0][0]), "content": blocks}


def write_responses(turns: list[list[Fact]]) -> Iterator[Json]:
    for fact in itertools.chain(*turns):
        match fact:
            case "call", identity, name, given:
                call = {"call_id": identity, "name": name, "arguments": json.dumps(given)}
                yield {"type": "function_call", **call}
            case "result", identity, said:
                yield {"type": "function_call_output", "call_id": identity, "output": said}
            case _:
                role = fact[0] if fact != ("image",) else "user"
                kind = "output_text" if role == "assistant" else "input_text"
                yield {"type": "message", "role": role, "content": [write_part(fact, kind)]}


def read_text(content: Any) -> str:
    """Join a text or its parts; translations put blank lines between some of them."""
    held = content if isinstance(content, list) else [{"text": content or ""}]
    return "".join(part["text"] for part in held).replace("\n\n", "")


def read_parts(role: str, content: Any) -> Iterator[Fact]:
    for part in content if isinstance(content, list) else [{"text": content or ""}]:
        yield (role, read_text([part])) if "text" in part else ("image",)


def read_chat(made: Json) -> Iterator[Fact]:
    _CHAT.validate_python(made["messages"])
    for message in made["messages"]:
        if message["role"] == "tool":
            yield "result", message["tool_call_id"], read_text(message["content"])
            continue
        yield from read_parts(message["role"], message["content"])
        for call in message.get("tool_calls", ()):
            function = call["function"]
            yield "call", call["id"], function["name"], json.loads(function["arguments"])


REMINDED: Final = re.compile("<system-reminder>\n(.*)\n</system-reminder>", re.DOTALL)
"""Matches a later instruction, which most messages models take from the user alone."""


def read_messages(made: Json) -> Iterator[Fact]:
    check_messages(made)
    yield from read_parts("system", made.get("system"))
    for turn in made["messages"]:
        for block in turn["content"]:
            match block["type"]:
                case "tool_use":
                    yield "call", block["id"], block["name"], block["input"]
                case "tool_result":
                    yield "result", block["tool_use_id"], read_text(block["content"])
                case _ if found := REMINDED.fullmatch(block.get("text", "")):
                    yield "system", found[1]
                case _:
                    assert turn["role"] in {"assistant", "user"}
                    yield from read_parts(turn["role"], [block])


def read_responses(made: Json) -> Iterator[Fact]:
    check_responses(made)
    yield from read_parts("system", made.get("instructions"))
    for item in made["input"]:
        match item["type"]:
            case "function_call":
                yield "call", item["call_id"], item["name"], json.loads(item["arguments"])
            case "function_call_output":
                yield "result", item["call_id"], read_text(item["output"])
            case _:
                yield from read_parts(item["role"], item["content"])


WRITE: Final[dict[str, Callable[[list[list[Fact]]], Iterator[Json]]]] = {
    "chat": write_chat, "messages": write_messages, "responses": write_responses,
}  # fmt: skip
READ: Final = {"chat": read_chat, "messages": read_messages, "responses": read_responses}


def join(facts: Iterator[Fact]) -> list[Fact]:
    """Join neighbouring texts of a speaker; blank ones are no text."""
    joined: list[Fact] = []
    for key, group in itertools.groupby(facts, lambda fact: fact[0]):
        if key in {"call", "result", "image"}:
            joined += group
        elif said := "".join(fact[1] for fact in group):
            joined.append((key, said))
    return joined


def check_results(facts: list[Fact]) -> None:
    """Providers demand that all calls are answered before anything else is said."""
    due: set[str] = set()
    for fact in facts:
        match fact[0]:
            case "call":
                due.add(fact[1])
            case "result":
                due.remove(fact[1])
            case _:
                assert not due


@each_row(("caller", "upstream"), PAIRS)
def test_a_conversation_keeps_text_tools_ids_and_order(caller: str, upstream: str) -> None:
    @fuzz(100)
    @given(conversations())
    def play(turns: list[list[Fact]]) -> None:
        said = [*WRITE[caller](turns)]
        body = {"input": said} if caller == "responses" else {"messages": said, "max_tokens": 9}
        exchange = EXCHANGES[caller][upstream]
        request = exchange.caller.parse_request(json.dumps({"model": "m", **body}).encode())
        made = json.loads(exchange.write_request(request, Target("theirs")).data)
        facts = join(READ[upstream](made))
        assert facts == join(fact for turn in turns for fact in turn)
        check_results(facts)

    play()


def think(number: int) -> Json:
    return {"type": "thinking", "thinking": f"t{number}", "signature": f"s{number}"}


CALLED: Final = [
    {"type": "tool_use", "id": f"toolu_0{one}AbCdEfGh", "name": "f", "input": {"a": one}}
    for one in (1, 2)
]
SAID: Final = [{"type": "text", "text": one} for one in ("Grüße ", "So.", "Nun denn.")]
SEARCHED: Final = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Hi"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    think(9),
]
"""A search, and what was thought of it: chat has no place for a search, and thinking comes back as it was made."""
THOUGHT: Final = [
    [think(0), *CALLED],
    [think(0), SAID[0], think(1), SAID[1], *CALLED],
    [think(0), SAID[0], think(1), SAID[1], think(2), SAID[2], *CALLED],
    [SAID[0], think(0), think(1), CALLED[0], think(2), CALLED[1]],
    [think(0), SAID[0], CALLED[0], think(1), SAID[1], CALLED[1]],
    [think(0), *SEARCHED, SAID[0], *CALLED],
]
"""Replies that think between what they say and call, as Claude does since version 4."""
TAG: Final = tag_provider("alpha", "https://alpha.example/v1")


def tell(caller: str, blocks: list[Json], reply: str = "request-1") -> Iterator[Json]:
    """Give a reply as the caller reads it from JSON and from a stream."""
    exchange = EXCHANGES[caller]["messages"]
    context = replace(make_context(usage=True, tag=TAG), request_id=reply)
    body = json.dumps(make_message(blocks, stop="tool_use")).encode()
    yield json.loads(exchange.read_reply(body, context).body)
    events = b"".join(frames(make_events(blocks, stop="tool_use")))
    yield add_up(caller, play(exchange.open_stream(context), [events]))


def go_on(caller: str, told: Json) -> Json:
    """Write the next request after a reply with calls."""
    if caller == "responses":
        ids = [one["call_id"] for one in told["output"] if "call_id" in one]
        outputs = [{"type": "function_call_output", "call_id": one, "output": ""} for one in ids]
        return {"input": [*told["output"], *outputs]}
    message = told["choices"][0]["message"]
    ids = [one["id"] for one in message["tool_calls"]]
    tools = [{"role": "tool", "tool_call_id": one, "content": ""} for one in ids]
    return {"messages": [message, *tools]}


def send_back(caller: str, said: Json) -> list[Json]:
    """Return the first turn of the assistant that the provider gets."""
    exchange = EXCHANGES[caller]["messages"]
    request = exchange.caller.parse_request(json.dumps({"model": "m", **said}).encode())
    made = json.loads(exchange.write_request(request, Target("theirs", provider_tag=TAG)).data)
    turn: list[Json] = next(
        one["content"] for one in made["messages"] if one["role"] == "assistant"
    )
    return turn


@each_row(("caller", "blocks"), itertools.product(CALLERS.keys() - {"messages"}, THOUGHT))
def test_thinking_comes_back_to_where_it_stood(caller: str, blocks: list[Json]) -> None:
    """Anthropic refuses a turn in which it stands elsewhere: "cannot be modified"."""
    for told in tell(caller, blocks):
        turn = send_back(caller, go_on(caller, told))
        if caller == "responses":  # its items of text are paragraphs
            turn = [edit_text(one, one.get("text", "").removesuffix("\n\n")) for one in turn]
        assert turn == [one for one in blocks if one not in SEARCHED]


def edit_text(block: Json, text: str) -> Json:
    return {**block, "text": text} if block["type"] == "text" else block


@need_extra("responses")
@each_row(
    ("first", "second"),
    [
        ([think(7), SAID[1]], THOUGHT[2]),
        ([think(7), SAID[0]], [think(0), CALLED[0], think(1), CALLED[1]]),
        ([SAID[1]], THOUGHT[2]),
    ],
)
def test_thinking_of_two_replies_in_a_row_is_in_front(
    first: list[Json], second: list[Json]
) -> None:
    """They are one turn if no result is between them, and their text is not cut."""
    one, two = (next(tell("responses", blocks, str(blocks))) for blocks in (first, second))
    said = go_on("responses", two)
    turn = send_back("responses", {"input": [*one["output"], *said["input"]]})
    kinds = ["thinking", "text", "tool_use"]
    told = sorted([*first, *second], key=lambda block: kinds.index(block["type"]))
    assert list_solid(turn) == list_solid(told)


def list_solid(blocks: list[Json]) -> list[Any]:
    """List the blocks without their white space, texts in a row as one."""
    pieces = itertools.groupby(blocks, key=lambda block: block["type"])
    return [
        "".join("".join(one["text"] for one in held).split()) if kind == "text" else [*held]
        for kind, held in pieces
    ]


MARK: Final = {"cache_control": {"type": "ephemeral"}}


@each_row(
    ("cuts", "mark", "expected"),
    [
        ([0], {}, [think(0), SAID[0], think(1), SAID[1], *CALLED]),
        ([0, 3], {}, [think(0), SAID[0], think(1), SAID[1], *CALLED]),
        ([0], MARK, [think(0), {"type": "text", "text": "Grüße So.", **MARK}, *CALLED]),
    ],
)
def test_thinking_comes_back_into_parts(cuts: list[int], mark: Json, expected: list[Json]) -> None:
    """Text with a mark stays whole: thinking within it is left out, as elsewhere it is refused."""
    for told in tell("chat", [think(0), SAID[0], think(1), SAID[1], *CALLED]):
        said = go_on("chat", told)
        message = said["messages"][0]
        ends = zip(cuts, [*cuts[1:], None], strict=True)
        message["content"] = [
            {"type": "text", "text": message["content"][start:end], **mark} for start, end in ends
        ]
        assert send_back("chat", said) == expected
