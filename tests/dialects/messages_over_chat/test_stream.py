"""Chat streams as messages streams: blocks, parallel calls, faults, and what is charged."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.messages_over_chat.reply import MessageWriter
from gateway.errors import UndeliverableReply
from gateway.money import Tokens
from gateway.usage import Metered
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    Json,
    choice,
    chunk,
    event,
    events,
    play,
    random_slices,
    role,
    stop,
    text,
)
from tests.dialects.messages_over_chat.kit import (
    INTERLEAVED,
    SEQUENTIAL,
    STOP_EVENT,
    USAGE,
    USED,
    begin,
    check_events,
    fragment,
    kinds_of,
    make_context,
    open_stream,
    play_whole,
    read_events,
    read_message,
    starts_of,
    stream,
    text_of,
    thinking_of,
    tools_of,
)
from tests.support.fuzz import fuzz


def test_plain_stream_event_by_event() -> None:
    played = play_whole(stream(text("he"), text("llo")))
    start, *rest = read_events(played.out)
    assert start["message"]["id"] == "msg_request-1"
    assert (start["message"]["usage"]["input_tokens"], start["message"]["role"]) == (0, "assistant")
    empty = {"type": "text", "text": "", "citations": None}
    assert rest[:4] == [
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "he"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "llo"}},
        {"type": "content_block_stop", "index": 0},
    ]
    assert rest[4]["delta"]["stop_reason"] == "end_turn"
    assert (rest[4]["usage"]["input_tokens"], rest[4]["usage"]["output_tokens"]) == (5, 3)
    assert played.out.endswith(STOP_EVENT)
    assert (played.tokens, played.estimated) == (USED, False)
    read_message(played)


def test_every_event_leaves_as_soon_as_it_can() -> None:
    """Text leaves with its chunk, `message_delta` at the end, `message_stop` by `finish`."""
    pipeline = open_stream()
    assert kinds_of(pipeline.feed(event(chunk(role())))) == ["message_start"]
    assert pipeline.begun
    assert not pipeline.delivered
    said = pipeline.feed(event(chunk(text("a"))))
    assert kinds_of(said) == ["content_block_start", "content_block_delta"]
    assert pipeline.delivered
    assert not pipeline.finished
    assert kinds_of(pipeline.feed(event(chunk(stop())))) == ["content_block_stop"]
    assert (pipeline.finished, pipeline.complete) == (True, False)
    assert pipeline.feed(event(chunk(usage=USAGE))) == b""
    assert kinds_of(pipeline.feed(DONE)) == ["message_delta"]
    assert pipeline.complete
    assert pipeline.finish() == STOP_EVENT


def test_stop_sequence_that_the_upstream_tells() -> None:
    last = choice({}, "stop", stop_reason="END")
    data = events(chunk(role()), chunk(text("a")), chunk(last)) + DONE
    message = read_message(play_whole(data, {"stream": True, "stop_sequences": ["END"]}))
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")


def test_refusal_is_said_and_explained() -> None:
    refusal = (choice({"refusal": "N"}), choice({"refusal": "o."}))
    message = read_message(play_whole(stream(*refusal)))
    assert (text_of(message), message.stop_reason) == ("No.", "refusal")
    assert message.stop_details is not None
    assert message.stop_details.explanation == "No."


def test_usage_known_at_the_start_is_told_there() -> None:
    start = read_events(open_stream().feed(event(chunk(role(), usage=USAGE))))[0]
    assert start["message"]["usage"]["input_tokens"] == 5


def test_before_the_end_what_was_delivered_counts_if_it_is_more() -> None:
    pipeline = open_stream()
    pipeline.feed(events(chunk(role(), usage=USAGE), chunk(text("a" * 40))))
    assert pipeline.measure() == Metered(Tokens(5, output=10), estimated=True)
    pipeline.feed(event(chunk(stop())) + DONE)
    assert pipeline.measure() == Metered(USED, estimated=False)


def test_what_waits_for_another_call_is_counted() -> None:
    """It was made, and is charged should the stream break off."""
    pipeline = open_stream()
    pipeline.feed(events(*(chunk(one) for one in (role(), begin(0), begin(1, "a" * 400)))))
    waiting = Metered(Tokens(INPUT_ESTIMATE, output=100), estimated=True)
    assert (pipeline.delivered, pipeline.measure()) == (True, waiting)


def test_done_counts_with_its_line() -> None:
    """The gateway need not wait for an upstream that keeps the connection open after it."""
    pipeline = open_stream()
    pipeline.feed(stream(text("a")).removesuffix(b"\n\n"))
    assert not pipeline.complete
    pipeline.feed(b"\n")
    assert pipeline.complete


def test_done_without_a_finish_reason_is_an_end() -> None:
    """Some upstreams leave out the finish reason; the terminal event shows that all has come."""
    message = read_message(play_whole(events(chunk(role()), chunk(text("a"))) + DONE))
    assert message.stop_reason == "end_turn"
    message = read_message(play_whole(events(chunk(role()), chunk(begin(0))) + DONE))
    assert message.stop_reason == "tool_use"


def test_calls_too_large_to_hold_are_a_failure() -> None:
    pipeline = open_stream()
    pipeline.feed(events(*(chunk(one) for one in (role(), begin(0), begin(1)))))
    large = event(chunk(fragment(1, "x" * (1 << 20))))
    for _ in range(8):
        pipeline.feed(large)
    pipeline.feed(large)
    assert pipeline.failure is None  # the rest is read for its usage
    pipeline.end()
    assert isinstance(pipeline.failure, UndeliverableReply)


WHOLE = stream(
    choice({"reasoning_content": "hm"}), text("a"), *INTERLEAVED, finish="tool_calls"
)  # fmt: skip


def test_a_cut_is_never_complete() -> None:
    """For a cut after any event but the last two, no end is added, and the rules are kept."""
    blocks = [block + b"\n\n" for block in WHOLE.split(b"\n\n")[:-1]]
    for count in range(len(blocks) - 2):  # with the finish reason a clean end is an end
        played = play_whole(b"".join(blocks[:count]))
        assert (played.complete, played.failure) == (False, None)
        assert STOP_EVENT not in played.out
        assert b"message_delta" not in played.out
        check_events(read_events(played.out), complete=False)


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


def test_a_name_then_an_id_may_come_late() -> None:
    fragments = [fragment(0, "{"), fragment(0, "", name="f"), fragment(0, "}", id="c")]
    message = read_message(play_whole(stream(*fragments, finish="tool_calls")))
    assert tools_of(message) == [("c", "f", {})]


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
