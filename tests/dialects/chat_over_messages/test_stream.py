"""Messages streams as chat chunks, event by event."""

from __future__ import annotations

from typing import Any

from gateway.money import Tokens
from tests.dialects.chat.kit import MODEL, check_stream
from tests.dialects.chat_over_messages.events import (
    BEGUN,
    ENDED,
    PING,
    ROLE,
    STOP,
    argue,
    close,
    delta,
    finish,
    open_block,
    open_tool,
    play_events,
    say,
    start,
    told,
    tool_delta,
)
from tests.dialects.chat_over_messages.kit import CREATED
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


def test_no_usage_is_said_unasked() -> None:
    played = play_events(*BEGUN, say("a"), *ENDED)
    assert all("usage" not in chunk for chunk in played.chunks)
    assert all(chunk["choices"] for chunk in played.chunks)


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
