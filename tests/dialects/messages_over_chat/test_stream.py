"""Chat streams as messages streams: blocks, parallel calls, faults, and what is charged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.messages_over_chat.reply import MessageWriter
from gateway.errors import UndeliverableReply
from tests.dialects.chat.kit import DONE, choice, chunk, event, events, role, stop, text
from tests.dialects.messages_over_chat.kit import (
    SEQUENTIAL,
    STOP_EVENT,
    USAGE,
    USED,
    begin,
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
    tools_of,
)


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
