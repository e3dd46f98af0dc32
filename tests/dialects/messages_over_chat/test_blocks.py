"""Tool calls of a chat stream as blocks: parallel, interleaved, and in vendors' variants."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.messages_over_chat.stream import MessageWriter
from gateway.errors import UndeliverableReply
from tests.dialects.chat.kit import (
    Json,
    choice,
    chunk,
    event,
    events,
    play,
    random_slices,
    role,
    text,
)
from tests.dialects.messages_over_chat.kit import (
    INTERLEAVED,
    SEQUENTIAL,
    USED,
    begin,
    fragment,
    kinds_of,
    make_context,
    open_stream,
    play_whole,
    read_message,
    starts_of,
    stream,
    text_of,
    thinking_of,
    tools_of,
)
from tests.support.fuzz import fuzz
from tests.support.rows import each_row


@each_row("choices", [SEQUENTIAL, INTERLEAVED])
def test_parallel_calls(choices: list[Json]) -> None:
    played = play_whole(stream(*choices, finish="tool_calls"))
    message = read_message(played)
    assert tools_of(message) == [("c0", "f0", {"a": 1}), ("c1", "f1", {"b": 2})]
    assert message.stop_reason == "tool_use"


def test_call_that_is_whole_makes_way_for_the_next() -> None:
    """Sequential calls are not held back: the second opens with its first fragment."""
    pipeline = open_stream()
    pipeline.feed(events(*(chunk(one) for one in (role(), *SEQUENTIAL[:3]))))
    out = kinds_of(pipeline.feed(event(chunk(SEQUENTIAL[3]))))
    assert out == ["content_block_stop", "content_block_start", "content_block_delta"]


def test_what_a_stream_holds_is_bounded() -> None:
    """8 Mi characters of a stream's text and arguments are held, and not one more."""
    held = "[" + " " * ((8 << 20) - 1)
    for first, last in ((begin(0, held), fragment(0, "]")), (text(held), text("a"))):
        writer = MessageWriter(make_context())
        writer.write({"choices": [first]})
        with pytest.raises(UndeliverableReply, match="too large"):
            writer.write({"choices": [last]})


@each_row("arguments", [None, "", " \n", "{}"])
def test_call_without_arguments_has_an_empty_input(arguments: str | None) -> None:
    played = play_whole(stream(begin(0), fragment(0, arguments), begin(1), finish="tool_calls"))
    assert tools_of(read_message(played)) == [("c0", "f0", {}), ("c1", "f1", {})]


@each_row(
    ("fragments", "tools"),
    [
        # Qwen repeats the id as an empty string.
        ([begin(0, "{"), fragment(0, "}", id="", type="function")], [("c0", "f0", {})]),
        # The name, then the id come late.
        ([fragment(0, "{"), fragment(0, "", name="f"), fragment(0, "}", id="c")], [("c", "f", {})]),
        # No id at all.
        ([fragment(0, '{"a":1}', name="f")], [("toolu_request-1_0", "f", {"a": 1})]),
        # No index: Mistral.
        ([choice({"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]})],
         [("c", "f", {})]),
        # All at index 0, told apart by id: Gemini.
        ([begin(0, '{"a":1}'), fragment(0, '{"b":2}', id="d", name="g")],
         [("c0", "f0", {"a": 1}), ("d", "g", {"b": 2})]),
        # The id and name again with every fragment.
        ([begin(0, '{"a"'), begin(0, ":1}")], [("c0", "f0", {"a": 1})]),
        # An index that counts content blocks: Anthropic's own chat endpoint.
        ([begin(1, "{}"), begin(2, "{}")], [("c1", "f1", {}), ("c2", "f2", {})]),
        # Arguments as an object: Ollama's native shape.
        ([choice({"tool_calls": [{"index": 0, "id": "c",
                                  "function": {"name": "f", "arguments": {"a": 1}}}]})],
         [("c", "f", {"a": 1})]),
        # Space behind a call that is closed already.
        ([begin(0, "{}"), begin(1, "{}"), fragment(0, "\n")], [("c0", "f0", {}), ("c1", "f1", {})]),
        # Text in between a call's fragments waits for the call.
        ([begin(0, '{"a"'), text("x"), fragment(0, ":1}")], [("c0", "f0", {"a": 1})]),
    ],
)  # fmt: skip
def test_calls_as_upstreams_write_them(fragments: list[Json], tools: list[Any]) -> None:
    played = play_whole(stream(*fragments, finish="tool_calls"))
    assert tools_of(read_message(played)) == tools


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
objects = st.dictionaries(words, words | st.integers(-9, 9) | st.none(), max_size=3)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[Json], list[Any]]:
    """Mix text, reasoning and calls of a stream at random; return the choices and the calls."""
    given = [(f"c{position}", f"f{position}", draw(objects)) for position in range(draw(st.integers(0, 4)))]  # fmt: skip
    queues: list[list[Json]] = []
    for position, (_, _, value) in enumerate(given):
        written = json.dumps(value, ensure_ascii=draw(st.booleans()))
        cuts = sorted(draw(st.sets(st.integers(0, len(written)), max_size=4)))
        bounds = [0, *cuts, len(written)]
        pieces = [written[a:b] for a, b in itertools.pairwise(bounds)]
        queues.append([begin(position), *(fragment(position, piece) for piece in pieces)])
    queues += [
        [choice({key: said}) for said in draw(st.lists(words, max_size=4))]
        for key in ("content", "reasoning_content")
    ]
    order = draw(st.permutations([at for at, queue in enumerate(queues) for _ in queue]))
    choices = [queues[at].pop(0) for at in order]
    first_seen = list(dict.fromkeys(at for at in order if at < len(given)))
    return choices, [given[at] for at in first_seen]


@fuzz(150)
@given(scripts(), st.randoms(use_true_random=False))
def test_any_mixture_keeps_text_reasoning_and_calls(
    script: tuple[list[Json], list[Any]], dice: Any
) -> None:
    choices, calls = script
    data = stream(*choices)
    played = play(open_stream(), random_slices(data, dice))
    message = read_message(played)
    deltas = [one["delta"] for one in choices]
    assert text_of(message) == "".join(one.get("content", "") for one in deltas)
    assert thinking_of(message) == "".join(one.get("reasoning_content", "") for one in deltas)
    assert tools_of(message) == calls
    assert played.tokens == USED
    kinds = starts_of(played.out)
    assert kinds.count("tool_use") == len(calls)
    pairs = itertools.pairwise(kinds)
    assert all(one != two or one == "tool_use" for one, two in pairs)


def test_what_comes_back_stands_before_the_text_and_never_ends_an_answer() -> None:
    """Claude Code takes a last block of thinking for the whole answer."""
    writer = MessageWriter(replace(make_context(), provider_tag="gw1.00000000."))
    details = choice({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})
    for choices, kinds in (
        ([details, text("Hi"), details], ["thinking", "text"]),
        ([begin(0, "{}"), details], ["thinking", "tool_use", "thinking"]),
    ):
        writer.write({"choices": choices})
        writer.flush()
        assert starts_of(writer.take()) == kinds
