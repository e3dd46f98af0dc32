"""Chat streams as messages streams: blocks, parallel calls, faults, and what is charged."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.messages_over_chat.stream import MessageWriter
from gateway.dialects.wire.stream import MAX_TRANSLATED_EVENT_BYTES
from gateway.errors import UndeliverableReply
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
    make_dice,
    play,
    random_slices,
    role,
    stop,
    text,
)
from tests.dialects.messages_over_chat.kit import (
    AZURE,
    INTERLEAVED,
    SEQUENTIAL,
    STOP_EVENT,
    USAGE,
    USED,
    accumulate,
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


PARTIAL = events(chunk(role()), chunk(text("a")))


@each_row(
    ("data", "words"),
    [
        (event({"error": {"message": "said upstream"}}), "said upstream"),
        (b'event: error\ndata: {"message":"said upstream"}\n\n', "said upstream"),
        (event({"object": "error", "message": "said upstream"}) + DONE, "said upstream"),
        (event({"error": {}, "object": "error"}), "error"),
        (b"data: <html>\n\n", "not JSON"),
        (b"data: [1]\n\n", "not JSON"),
        (event(chunk(choice({}, "error"))), "error"),
        (event(chunk(fragment(0, "{}"), choice({}, "stop"))), "naming"),
        (events(*(chunk(one) for one in (begin(0, "{}"), begin(1), fragment(0, "x")))), "complete"),
    ],
)
def test_failures(data: bytes, words: str) -> None:
    played = play_whole(PARTIAL + data + DONE)
    assert not played.complete
    assert played.failure is not None
    assert words in played.failure
    check_events(read_events(played.out), complete=False)


@each_row("data", [DONE, b": hello\n\n" + DONE, event(AZURE) + DONE])
def test_end_before_the_beginning_is_a_failure(data: bytes) -> None:
    played = play_whole(data)
    assert played.failure == "The upstream's stream ended before it began."


def test_event_too_large_to_hold_is_a_failure() -> None:
    piece = b"x" * (MAX_TRANSLATED_EVENT_BYTES // 4)
    pipeline = open_stream()
    pipeline.feed(b'data: {"')
    for _ in range(3):
        pipeline.feed(piece)
    assert pipeline.failure is None
    pipeline.feed(piece)
    assert pipeline.failure is not None


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


def test_a_clean_end_without_done_is_an_end_once_the_choice_finished() -> None:
    played = play_whole(WHOLE.removesuffix(DONE))
    assert read_message(played) == read_message(play_whole(WHOLE))


def test_a_cut_within_the_last_event_is_not_an_end() -> None:
    finished = events(chunk(role()), chunk(text("a")), chunk(stop()))
    for cut in range(finished.rindex(b"data:") + 1, len(finished) - 4):
        played = play_whole(finished[:cut])
        assert (played.complete, played.failure) == (False, None)


@pytest.mark.no_cover
def test_every_split_point_gives_the_same() -> None:
    expected = play_whole(WHOLE)
    for cut in range(1, len(WHOLE), 7):
        assert play(open_stream(), [WHOLE[:cut], WHOLE[cut:]]) == expected
    assert play(open_stream(), each_byte(WHOLE)) == expected


@fuzz(150)
@given(st.data())
def test_no_bytes_are_so_odd_that_the_pipeline_breaks(data: st.DataObject) -> None:
    """A mangled stream ends in a failure, or its output keeps the rules."""
    dice = data.draw(st.randoms(use_true_random=False))
    mangled = bytearray(WHOLE)
    for _ in range(data.draw(st.integers(1, 6))):
        at = dice.randrange(len(mangled))
        mangled[at : at + dice.choice((0, 1, 9))] = dice.choice(MISHAPS)
    played = play(open_stream(), random_slices(bytes(mangled), dice))
    found = read_events(played.out)
    if not played.complete or played.failure:
        check_events(found, complete=False)
    else:
        check_events(found)


MISHAPS = (b"", b"\n", b"\n\n", b"null", b'"', b"{}", b"[]", b"7", b"\xff", b"\r", b"data: ", b":")


def test_seeded_slicings_agree() -> None:
    dice = make_dice()
    expected = accumulate(read_events(play_whole(WHOLE).out))
    for _ in range(50):
        played = play(open_stream(), random_slices(WHOLE, dice))
        assert accumulate(read_events(played.out)) == expected


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
