"""A chat stream as a messages stream: events, stop reasons, usage, in any framing."""

from __future__ import annotations

from gateway.money import Tokens
from gateway.usage import Metered
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    Json,
    choice,
    chunk,
    each_byte,
    event,
    events,
    play,
    role,
    stop,
    text,
)
from tests.dialects.messages_over_chat.kit import (
    AZURE,
    STOP_EVENT,
    USAGE,
    USED,
    begin,
    kinds_of,
    open_stream,
    play_whole,
    read_events,
    read_message,
    starts_of,
    stream,
    text_of,
    thinking_of,
)
from tests.support.rows import each_row


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


def test_kinds_never_overlap_and_indexes_are_contiguous() -> None:
    hm = choice({"reasoning_content": "hm"})
    played = play_whole(stream(hm, text("a"), hm, text("b"), begin(0, "{}"), text("c")))
    message = read_message(played)
    assert starts_of(played.out) == ["thinking", "text", "thinking", "text", "tool_use", "text"]
    assert (text_of(message), thinking_of(message)) == ("abc", "hmhm")


@each_row("key", ["reasoning", "reasoning_content"])
def test_reasoning_under_either_name_is_a_thinking_block(key: str) -> None:
    message = read_message(play_whole(stream(choice({key: "hm", "content": ""}), text("a"))))
    assert (thinking_of(message), text_of(message)) == ("hm", "a")


def test_parts_of_content_are_read() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = choice({"content": [thought, {"type": "text", "text": "a"}]})
    message = read_message(play_whole(stream(parts)))
    assert (thinking_of(message), text_of(message)) == ("hm", "a")


@each_row(
    ("finish", "reason"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "refusal"),
        ("tool_calls", "tool_use"),
        ("eos", "end_turn"),
    ],
)
def test_stop_reasons(finish: str, reason: str) -> None:
    assert read_message(play_whole(stream(text("a"), finish=finish))).stop_reason == reason


def test_calls_that_finish_with_stop_are_a_tool_use() -> None:
    assert read_message(play_whole(stream(begin(0), finish="stop"))).stop_reason == "tool_use"


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


LAST_USAGE = {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 20}
CACHED = {**USAGE, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1}}


@each_row(
    ("chunks", "tokens"),
    [
        # Its own chunk; with the finish reason; in every chunk (the last counts); output left out.
        ([chunk(stop()), chunk(usage=USAGE)], USED),
        ([chunk(stop(), usage=USAGE)], USED),
        ([chunk(text("b"), usage=USAGE), chunk(stop(), usage=LAST_USAGE)], Tokens(7, 0, 0, 13)),
        ([chunk(stop(), usage=USAGE), chunk(usage=LAST_USAGE)], Tokens(7, 0, 0, 13)),
        ([chunk(stop(), usage=USAGE), chunk(usage=None)], USED),
        ([chunk(stop()), chunk(usage=CACHED)], Tokens(2, 2, 1, 3)),
    ],
)
def test_usage_told_is_the_usage_charged(chunks: list[Json], tokens: Tokens) -> None:
    played = play_whole(events(chunk(role()), chunk(text("a")), *chunks) + DONE)
    usage = read_message(played).usage
    assert (played.tokens, played.estimated) == (tokens, False)
    told = (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens)
    assert (*told, usage.output_tokens) == (*told_of(tokens), tokens.output)


def told_of(tokens: Tokens) -> tuple[int, int, int]:
    return tokens.input, tokens.cached_input, tokens.cache_write


def test_usage_known_at_the_start_is_told_there() -> None:
    start = read_events(open_stream().feed(event(chunk(role(), usage=USAGE))))[0]
    assert start["message"]["usage"]["input_tokens"] == 5


@each_row("usage", [None, {"prompt_tokens": -1}, {**USAGE, "prompt_tokens": 10**9}])
def test_without_a_usage_that_can_be_it_is_estimated_and_told(usage: Json | None) -> None:
    choices = (choice({"reasoning": "ä"}), text("abc"), begin(0, '{"x":1}'))
    played = play_whole(stream(*choices, usage=usage))
    assert (played.tokens, played.estimated) == (Tokens(INPUT_ESTIMATE, output=3), True)  # 12 bytes
    assert read_message(played).usage.output_tokens == 3


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


@each_row(
    "data",
    [
        b"\xef\xbb\xbf" + stream(text("a")),
        stream(text("a")).replace(b"\n", b"\r\n"),
        stream(text("a")).replace(b"\n", b"\r"),
        stream(text("a")).replace(b"data: ", b"data:"),
        stream(text("a")).replace(b"}\n", b"} \n"),
        stream(text("a")).replace(b"data: {", b"data: {\ndata: "),
        stream(text("a")).replace(b"data: ", b"id: 1\nretry: 5\nevent: x\ndata: "),
        b"retry: 1\n\nevent: ping\n\n" + stream(text("a")),
        stream(text("a")).removesuffix(b"\n"),  # [DONE] with its line
        stream(text("a")).removesuffix(b"\n\n"),
        stream(text("a")).removesuffix(DONE),
        stream(text("a")).removesuffix(b"\n\n" + DONE),
        stream(text("a")).replace(DONE, b"data: [DONE] \n\n"),
        stream(text("a")) + event(chunk(text("late"))),
        event(AZURE) + stream(text("a")),
        stream(text("a")).replace(b'"object":"chat.completion.chunk",', b""),
    ],
)
def test_whatever_the_framing_the_message_is_the_same(data: bytes) -> None:
    for pieces in ([data], each_byte(data)):
        played = play(open_stream(), pieces)
        message = read_message(played)
        assert (text_of(message), played.tokens) == ("a", USED)


def test_byte_order_mark_does_not_hide_the_first_chunk() -> None:
    data = b"\xef\xbb\xbf" + events(chunk(text("a")), chunk(stop())) + DONE
    for pieces in ([data], each_byte(data)):
        assert text_of(read_message(play(open_stream(), pieces))) == "a"


def test_done_counts_with_its_line() -> None:
    """The gateway need not wait for an upstream that keeps the connection open after it."""
    pipeline = open_stream()
    pipeline.feed(stream(text("a")).removesuffix(b"\n\n"))
    assert not pipeline.complete
    pipeline.feed(b"\n")
    assert pipeline.complete


def test_comments_pass() -> None:
    played = play_whole(b": busy\n\n" + stream(text("a")))
    assert played.out.startswith(b": busy\n\nevent: message_start\n")
    pipeline = open_stream()
    assert pipeline.feed(b": busy\n\n") == b": busy\n\n"
    assert not pipeline.begun


def test_done_without_a_finish_reason_is_an_end() -> None:
    """Some upstreams leave out the finish reason; the terminal event shows that all has come."""
    message = read_message(play_whole(events(chunk(role()), chunk(text("a"))) + DONE))
    assert message.stop_reason == "end_turn"
    message = read_message(play_whole(events(chunk(role()), chunk(begin(0))) + DONE))
    assert message.stop_reason == "tool_use"


def test_lone_surrogates_pass_as_escapes() -> None:
    halves = [
        event(chunk(text("HERE"))).replace(b"HERE", half) for half in (b"\\ud83d", b"\\ude00")
    ]
    out = play_whole(event(chunk(role())) + b"".join(halves) + event(chunk(stop())) + DONE).out
    assert b'"\\ud83d"' in out
    assert b'"\\ude00"' in out


def test_only_the_first_choice_is_told() -> None:
    played = play_whole(stream(text("a"), text("other", index=1)))
    assert text_of(read_message(played)) == "a"
