"""Messages streams as chat chunks, event by event; how they end and fail, and what is charged."""

from __future__ import annotations

from typing import Any

from gateway.dialects.wire.stream import MAX_TRANSLATED_EVENT_BYTES
from gateway.money import Tokens
from tests.dialects.chat.kit import INPUT_ESTIMATE, MODEL, check_stream, play
from tests.dialects.chat_over_messages.kit import (
    BEGUN,
    CREATED,
    ENDED,
    PING,
    ROLE,
    STOP,
    argue,
    close,
    delta,
    finish,
    frame,
    open_block,
    open_stream,
    open_tool,
    play_events,
    say,
    start,
    told,
    tool_delta,
)
from tests.support.rows import each_row

Json = dict[str, Any]


def test_stream_in_full() -> None:
    played = play_events(*BEGUN, PING, say("Hel"), say("lo"), *ENDED, usage=True)
    head = {
        "id": "chatcmpl-request-1",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": MODEL,
    }

    def chunk(delta: Json, finish: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "choices": [choice], "usage": None}

    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 2,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
    assert played.chunks == [
        chunk(ROLE),
        chunk({"content": "Hel"}),
        chunk({"content": "lo"}),
        chunk({}, "stop"),
        {**head, "choices": [], "usage": usage},
    ]
    assert played.out.endswith(b"data: [DONE]\n\n")


@each_row(
    ("events", "expected"),
    [
        ([], []),
        ([open_block(0, text="Hi")], [{"content": "Hi"}]),
        ([open_block(0, "thinking", thinking="")], []),
        ([open_block(0, "thinking", thinking="", signature=""), delta(0, "thinking", thinking="hm"),
          delta(0, "thinking", thinking=""), delta(0, "signature", signature="sig"), close(),
          open_block(1, "redacted_thinking", data="x"), close(1)], [{"reasoning_content": "hm"}]),
        ([open_tool(1), argue("", 1), argue('{"a"', 1), argue(":1}", 1), close(1)],
         [tool_delta(0, "", id="t1", name="f"), tool_delta(0, '{"a"'), tool_delta(0, ":1}")]),
        ([open_tool(0), close(0), open_tool(3, "t2", "g"), argue("", 3), close(3)],
         [tool_delta(0, "", id="t1", name="f"), tool_delta(0, "{}"),
          tool_delta(1, "", id="t2", name="g"), tool_delta(1, "{}")]),
        ([open_tool(0, a=1), close(0), open_tool(1, "t2", "g")],
         [tool_delta(0, "", id="t1", name="f"), tool_delta(0, '{"a":1}'),
          tool_delta(1, "", id="t2", name="g"), tool_delta(1, "{}")]),
        ([open_tool(0), open_tool(0, "t2", "g"), argue("{", 0)],
         [tool_delta(0, "", id="t1", name="f"), tool_delta(0, "{}"),
          tool_delta(1, "", id="t2", name="g"), tool_delta(1, "{")]),
        ([open_tool(0), open_tool(1, "t2", "g"), argue("[", 0), argue("{", 1), argue("]", 0)],
         [tool_delta(0, "", id="t1", name="f"), tool_delta(1, "", id="t2", name="g"),
          tool_delta(0, "["), tool_delta(1, "{"), tool_delta(0, "]")]),
        ([open_block(0, "server_tool_use", id="s", name="search", input={}), argue('{"q":1}', 0),
          close(0), delta(0, "citations", citation={}), {"type": "unheard_of"}, PING], []),
    ],
)  # fmt: skip
def test_blocks_become_deltas(events: list[Json], expected: list[Json]) -> None:
    """Tools are numbered among themselves; one without arguments gets `{}` at its end."""
    begun = start(input_tokens=1, output_tokens=1)
    played = play_events(begun, *events, finish(output_tokens=9), STOP)
    assert played.complete
    check_stream(played.chunks, usage=False)
    called = any("tool_calls" in each for each in expected)
    assert told(played) == [ROLE, *expected, "tool_calls" if called else "stop"]


def test_a_caller_of_functions_gets_a_function_call() -> None:
    played = play_events(
        start(),
        open_tool(0, "t1", "f"),
        argue('{"a":1}', 0),
        close(0),
        finish("tool_use"),
        STOP,
        functions=[{"name": "f"}],
    )
    assert told(played) == [
        ROLE,
        {"function_call": {"name": "f", "arguments": ""}},
        {"function_call": {"arguments": '{"a":1}'}},
        "function_call",
    ]


def test_a_refusal_is_explained_before_the_end() -> None:
    details = {"type": "refusal", "category": None, "explanation": "Not that."}
    played = play_events(start(), finish("refusal", details, output_tokens=1), STOP)
    assert told(played) == [ROLE, {"refusal": "Not that."}, "content_filter"]
    check_stream(played.chunks, usage=False)
    assert not played.delivered


def test_the_last_stop_reason_counts() -> None:
    """A `message_delta` may come more than once, and nothing may follow the last chunk."""
    played = play_events(
        *BEGUN, say("a"), finish(None, output_tokens=1), finish("max_tokens"), say("b"), *ENDED
    )
    assert told(played) == [ROLE, {"content": "a"}, {"content": "b"}, "stop"]


def test_a_second_beginning_says_nothing_new() -> None:
    again = start(input_tokens=12, output_tokens=1)
    played = play_events(BEGUN[0], again, BEGUN[1], say("a"), *ENDED)
    assert told(played) == [ROLE, {"content": "a"}, "stop"]
    assert played.tokens == Tokens(input=12, output=2)


def test_a_missing_beginning_is_made_up_for() -> None:
    assert told(play_events(say("a"), *ENDED)) == [ROLE, {"content": "a"}, "stop"]


def test_nothing_is_held_back_but_the_end() -> None:
    stream = open_stream()
    assert not stream.begun
    assert stream.feed(b": waiting\n\n" + frame(PING)) == b""
    assert not stream.begun
    assert b'"role":"assistant"' in stream.feed(frame(BEGUN[0]))
    assert (stream.begun, stream.delivered, stream.finished) == (True, False, False)
    assert b'"content":"a"' in stream.feed(frame(BEGUN[1], say("a")))
    assert (stream.delivered, stream.finished, stream.complete) == (True, False, False)
    assert stream.feed(frame(*ENDED[:-1])) == b""
    assert (stream.finished, stream.complete) == (True, False)
    assert b'"finish_reason":"stop"' in stream.feed(frame(STOP))
    assert (stream.finished, stream.complete, stream.mid_event) == (True, True, False)


@each_row(
    ("body", "said"),
    [
        (b"data: nonsense\n\n", "not JSON"),
        (b"data: []\n\n", "not JSON"),
        (frame(STOP), "ended before it began"),
        (b"data: " + b"x" * (MAX_TRANSLATED_EVENT_BYTES + 1), "too large"),
    ],
)
def test_what_is_no_messages_stream_is_a_failure(body: bytes, said: str) -> None:
    for pieces in ([body], [body[:7], body[7:]]):
        played = play(open_stream(), pieces)
        assert said in str(played.failure)
        assert not played.complete


@each_row("index", [None, [], {}, "0"])
def test_a_block_without_a_number_is_still_one_block(index: Any) -> None:
    tool = [{**event, "index": index} for event in (open_tool(0), argue("{", 0), close())]
    played = play_events(start(), *tool, finish("tool_use"), STOP)
    begun = tool_delta(0, "", id="t1", name="f")
    assert told(played) == [ROLE, begun, tool_delta(0, "{"), "tool_calls"]


def test_an_event_up_to_the_limit_passes() -> None:
    text = "x" * (MAX_TRANSLATED_EVENT_BYTES - 1000)
    body = frame(*BEGUN, say(text), *ENDED)
    pieces = [body[at : at + 65536] for at in range(0, len(body), 65536)]
    assert {"content": text} in told(play(open_stream(), pieces))


def test_an_estimate_is_what_the_caller_is_told() -> None:
    played = play_events(say("12345"), finish(), STOP, usage=True)
    assert played.chunks[-1]["usage"] == {
        "prompt_tokens": INPUT_ESTIMATE,
        "completion_tokens": 2,
        "total_tokens": INPUT_ESTIMATE + 2,
    }
