"""Chat streams, bytes in and bytes out: framing, edits, endings and the meter in every slicing."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from chat_kit import (
    DONE,
    INPUT_ESTIMATE,
    MODEL,
    Json,
    Played,
    check_stream,
    choice,
    chunk,
    dump,
    each_byte,
    event,
    events,
    make_context,
    make_dice,
    play,
    random_slices,
    read_chunks,
    role,
    stop,
    text,
)
from support import recorded
from support.recorded import Said, accumulate

from gateway.dialects.chat_stream import ChatStream
from gateway.money import Tokens
from gateway.sse import MAX_EVENT_BYTES
from gateway.usage import UsageLimits

USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
BEGIN, END = events(chunk(role())), events(chunk(stop()))
HI = event(chunk(text("Hi")))
WHOLE = BEGIN + HI + END + DONE
"""A stream that conforms but for its model's name."""


def ours(body: bytes) -> bytes:
    return body.replace(b'"model":"theirs"', b'"model":"%s"' % MODEL.encode())


def send(*pieces: bytes, usage: bool = False, n: int = 1, limits: int = 10**6) -> Played:
    """Play a stream; cut into bytes or pieces of three it must come out the same."""
    body = b"".join(pieces)
    played = play(ChatStream(make_context(usage=usage, n=n, limits=limits)), [body])
    for sliced in (each_byte(body), (body[at : at + 3] for at in range(0, len(body), 3))):
        assert play(ChatStream(make_context(usage=usage, n=n, limits=limits)), sliced) == played
    return played


# Recorded streams

recordings = pytest.mark.skipif(
    not recorded.FOLDER.is_dir(), reason="the recorded streams (../shared/streams) are not here"
)
every_recording = pytest.mark.parametrize("name", recorded.NAMES)


def frame(lines: list[bytes]) -> bytes:
    return b"".join(b"data: " + line + b"\n\n" for line in lines) + DONE


def report(said: Said) -> Tokens:
    assert said.usage is not None
    prompt, output, _ = said.usage
    return Tokens(prompt - said.cached_tokens, said.cached_tokens, 0, output)


@recordings
@every_recording
@pytest.mark.parametrize("usage", [False, True], ids=["unasked", "usage"])
def test_a_recording_keeps_the_rules_and_says_the_same(name: str, *, usage: bool) -> None:
    expected = accumulate(recorded.load(name))
    played = play(ChatStream(make_context(usage=usage)), [frame(recorded.load_lines(name))])
    assert played.complete
    assert played.out.endswith(DONE)
    check_stream(played.chunks, usage=usage)
    said = accumulate(played.chunks)
    assert said.choices == expected.choices
    bare = [one for one in recorded.load(name) if not one["choices"] and one.get("usage")]
    assert said.usage == (expected.usage if usage or not bare else None)
    assert (played.tokens, played.estimated) == (report(expected), False)


@recordings
@every_recording
@pytest.mark.parametrize("usage", [False, True], ids=["unasked", "usage"])
def test_slicing_a_recording_changes_nothing(name: str, *, usage: bool) -> None:
    body = frame(recorded.load_lines(name))
    dice = make_dice()
    expected = play(ChatStream(make_context(usage=usage)), [body])
    assert play(ChatStream(make_context(usage=usage)), each_byte(body)) == expected
    for _ in range(200):
        pieces = list(random_slices(body, dice))
        assert play(ChatStream(make_context(usage=usage)), pieces) == expected, pieces[:3]


def without_usage(name: str) -> bytes:
    chunks = [{**one, "usage": None} for one in recorded.load(name)]
    return frame([dump(one) for one in chunks])


@recordings
@every_recording
def test_the_delivered_estimate_is_exact_at_every_cut(name: str) -> None:
    """Without a usage: a quarter of the UTF-8 bytes in the events that went out, rounded up."""
    stream = ChatStream(make_context())
    heard = 0
    for byte in each_byte(without_usage(name)):
        for one in read_chunks(stream.feed(byte)):
            said = accumulate([one]).choices
            heard += sum(len(each.output.encode()) for each in said.values())
        expected = Tokens(INPUT_ESTIMATE, output=-(-heard // 4))
        assert stream.measure() == (expected, True)
        assert stream.delivered == (heard > 0)
    assert stream.complete


@recordings
def test_a_cut_stream_is_charged_the_larger_of_reported_and_delivered() -> None:
    """Perplexity reports as it goes; what was reported last may lag behind what was said."""
    stream = ChatStream(make_context())
    reported = heard = 0
    for line in recorded.load_lines("perplexity-text"):
        stream.feed(b"data: " + line + b"\n\n")
        said = accumulate([json.loads(line)])
        heard += len(said.choices[0].output.encode())
        reported = said.usage[1] if said.usage else reported
        tokens, estimated = stream.measure()
        assert tokens == Tokens(11, output=max(reported, -(-heard // 4)))
        assert estimated == (-(-heard // 4) > reported)


@recordings
def test_openais_own_stream_passes_byte_for_byte_but_for_the_model() -> None:
    """A naive reference, good for this recording: its text never speaks of models."""
    lines = recorded.load_lines("openai-text")
    model = json.loads(lines[0])["model"].encode()
    naive = frame(lines).replace(b'"model":"%s"' % model, b'"model":"%s"' % MODEL.encode())
    assert play(ChatStream(make_context(usage=True)), [frame(lines)]).out == naive
    unasked = play(ChatStream(make_context()), [frame(lines)]).out
    assert unasked == b"\n\n".join(naive.split(b"\n\n")[:-3]) + b"\n\n" + DONE


@recordings
def test_an_id_without_the_shape_is_all_that_changes_besides() -> None:
    lines = recorded.load_lines("openai-text")
    identity, model = (json.loads(lines[0])[key].encode() for key in ("id", "model"))
    bare = [line.replace(identity, b"5319bd02-99") for line in lines]
    naive = frame(bare).replace(b'"id":"5319bd02-99"', b'"id":"chatcmpl-5319bd02-99"')
    naive = naive.replace(b'"model":"%s"' % model, b'"model":"%s"' % MODEL.encode())
    assert play(ChatStream(make_context(usage=True)), [frame(bare)]).out == naive


@recordings
@every_recording
@pytest.mark.parametrize("usage", [False, True], ids=["unasked", "usage"])
def test_what_went_out_needs_no_repair(name: str, *, usage: bool) -> None:
    """Fed in again, under the same name, every byte passes."""
    out = play(ChatStream(make_context(usage=usage)), [frame(recorded.load_lines(name))]).out
    assert play(ChatStream(make_context(usage=usage)), [out]).out == out


# Framing


def test_a_conforming_stream_passes_but_for_the_model() -> None:
    played = send(WHOLE)
    assert (played.out, played.complete, played.failure) == (ours(WHOLE), True, None)
    check_stream(played.chunks, usage=False)


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_at_every_split_point(end: bytes) -> None:
    body = WHOLE.replace(b"\n", end)
    expected = play(ChatStream(make_context()), [body])
    assert expected.complete
    assert [one["choices"] for one in expected.chunks] == [[role()], [text("Hi")], [stop()]]
    for cut in range(len(body) + 1):
        assert play(ChatStream(make_context()), [body[:cut], body[cut:]]) == expected, cut
    assert play(ChatStream(make_context()), each_byte(body)) == expected


def test_a_byte_order_mark_is_dropped() -> None:
    assert send(b"\xef\xbb\xbf" + WHOLE).out == ours(WHOLE)


def test_comments_pass_and_do_not_begin_the_stream() -> None:
    stream = ChatStream(make_context())
    assert stream.feed(b": OPENROUTER PROCESSING\n\n:\n\n") == b": OPENROUTER PROCESSING\n\n:\n\n"
    assert not stream.begun
    assert stream.feed(BEGIN) == ours(BEGIN)
    assert stream.begun


def test_comments_inside_an_event_pass_before_it() -> None:
    assert send(b": one\n" + BEGIN + HI + END + DONE).out == ours(b": one\n\n" + WHOLE)


@pytest.mark.parametrize(
    "field", [b"id: 7\n", b"retry: 1\n", b"event: message\n", b"x: y\n", b"x\n"]
)
def test_fields_other_than_data_never_pass(field: bytes) -> None:
    """openai-python breaks on them, bare or in an event."""
    assert send(field + b"\n" + BEGIN + field + HI + END + field + b"\n" + DONE).out == ours(WHOLE)


def test_events_without_data_never_pass() -> None:
    played = send(b"event: ping\n\n" + BEGIN + b"event: ping\nid: 1\n\n\n\n" + HI + END + DONE)
    assert played.out == ours(WHOLE)


@pytest.mark.parametrize(
    "line", [b"data:%s\n\n", b"event: x\ndata: %s\n\n", b"data: %s\nid: 1\n\n"]
)
def test_events_written_otherwise_become_one_data_line(line: bytes) -> None:
    body = b"".join(line % dump(one) for one in (chunk(role()), chunk(text("Hi")), chunk(stop())))
    assert send(body + DONE).out == ours(WHOLE)


def test_data_over_several_lines_becomes_one() -> None:
    body = HI.replace(b',"object"', b'\ndata: ,"object"')
    assert send(BEGIN + body + END + DONE).out == ours(WHOLE)


def test_spaces_around_the_data_are_left() -> None:
    """TensorRT-LLM ends its lines with a space."""
    body = WHOLE.replace(b"}\n\n", b"} \n\n")
    assert send(body).out == ours(body)


@pytest.mark.parametrize(
    "done",
    [b"data: [DONE]\n\n", b"data: [DONE]  \n\n", b"data:[DONE]\n\n", b"data: [DONE]\n"]
    + [b"data: [DONE]", b"data: [DONE]\r\r", b"data: [DONE]\r\n", b"event: x\ndata: [DONE]\n\n", b""],
)  # fmt: skip
def test_every_way_to_be_done(done: bytes) -> None:
    """Missing, cut short or dressed up: after every choice finished the caller gets it."""
    played = send(BEGIN + HI + END + done)
    assert (played.out, played.complete, played.failure) == (ours(WHOLE), True, None)


@pytest.mark.parametrize("done", [b"data: [DONE]\n", b"data: [DONE]\n\n", b"data: [DONE]\r\n"])
def test_done_counts_with_its_line(done: bytes) -> None:
    """The connection may stay open behind it (fault 36)."""
    stream = ChatStream(make_context())
    stream.feed(BEGIN + HI + done)
    assert stream.complete


def test_nothing_after_done_goes_out() -> None:
    assert send(WHOLE + HI + b": late\n\n").out == ours(WHOLE)


def test_done_before_any_chunk_is_a_failure() -> None:
    played = send(DONE)
    assert (played.out, played.complete) == (b"", False)
    assert played.failure


# Endings


@pytest.mark.parametrize("body", [b"", BEGIN, BEGIN + HI, BEGIN + HI + b": c\n\n", b"\n\n"])
def test_a_clean_end_in_the_middle_is_not_complete(body: bytes) -> None:
    played = send(body)
    assert (played.out, played.complete, played.failure) == (
        ours(body.strip(b"\n") and body),
        False,
        None,
    )


def test_a_last_event_without_its_blank_line_counts_when_it_is_whole() -> None:
    for cut in range(len(BEGIN + HI), len(BEGIN + HI + END) + 1):
        played = play(ChatStream(make_context()), [(BEGIN + HI + END)[:cut]])
        whole = cut >= len(BEGIN + HI + END) - 2
        assert (played.complete, played.failure) == (whole, None)
        assert played.out == ours(WHOLE if whole else BEGIN + HI)


def test_every_choice_has_to_finish() -> None:
    two = events(chunk(role(), role(1)), chunk(text("a", 1)), chunk(stop(1)))
    assert not send(two, n=2).complete
    assert not send(two, n=1).complete
    assert not send(BEGIN + HI + END, n=2).complete
    assert send(two + END, n=2).complete


def test_finished_waits_for_every_choice() -> None:
    stream = ChatStream(make_context(n=2))
    seen = [stream.finished]
    for one in (role(), stop(), role(1), stop(1)):
        stream.feed(event(chunk(one)))
        seen.append(stream.finished)
    assert seen == [False, False, False, False, True]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'data: {"error":{"message":"said upstream","code":400}}\n\n', "said upstream"),
        (b'data: {"error":"said upstream"}\n\n', "said upstream"),
        (b'data: {"choices":[],"error":{"message":"said upstream"}}\n\n', "said upstream"),
        (b'event: error\ndata: {"message":"said upstream"}\n\n', "said upstream"),
        (b'data: {"object":"error","message":"said upstream"}\n\n', "said upstream"),
        (b'data: {"error":{}, "object":"error"}\n\n', "with an error"),
        (b"data: oops\n\n", "not JSON"),
        (b"data: [1]\n\n", "not JSON"),
        (b"data: null\n\n", "not JSON"),
        (b'data: {"choices":\n\n', "not JSON"),
        (b"data\n\n", "not JSON"),
        (b'data: {"id":"a\x01"}\n\n', "not JSON"),
    ],
)
@pytest.mark.parametrize("before", [b"", BEGIN + HI + HI, BEGIN + HI + END])
def test_errors_in_a_stream_end_it(body: bytes, message: str, before: bytes) -> None:
    """Neither the error itself nor what follows goes out: the relay says it in our words."""
    played = send(before + body + HI + DONE)
    assert (played.out, played.complete) == (ours(before), False)
    assert message in (played.failure or "")


def test_an_error_that_is_null_is_none() -> None:
    body = event(chunk(text("Hi"), error=None))
    assert send(BEGIN + body + END + DONE).out == ours(BEGIN + body + END + DONE)


def test_a_stream_that_is_no_stream_fails_or_stays_open() -> None:
    assert not send(b"<html>\n\n</html>\n").complete
    assert send(b"<html>").out == b""


# Edits


def test_choices_that_are_empty_go_unless_they_bring_usage() -> None:
    preamble = event(chunk(id="", object="", model="", prompt_filter_results=[]))
    for usage in (False, True):
        assert send(preamble + BEGIN + event(chunk()) + HI + END + DONE, usage=usage).out == ours(
            WHOLE
        )


@pytest.mark.parametrize("usage", [False, True], ids=["unasked", "usage"])
def test_the_usage_chunk_is_for_who_asked(*, usage: bool) -> None:
    bare = event(chunk(usage=USAGE))
    played = send(BEGIN + HI + END + bare + DONE, usage=usage)
    assert played.out == ours(BEGIN + HI + END + (bare if usage else b"") + DONE)
    assert (played.tokens, played.estimated) == (Tokens(9, output=3), False)


def test_all_chunks_get_the_id_of_the_first() -> None:
    """Also when the upstream names another, or none."""
    chunks = [
        chunk(role()),
        chunk(text("a"), id="b"),
        chunk(text("c"), id=None),
        chunk(text("d"), id=""),
    ]
    bare = {key: value for key, value in chunk(stop()).items() if key != "id"}
    played = send(events(*chunks, bare) + DONE)
    assert {one["id"] for one in played.chunks} == {"chatcmpl-1"}


@pytest.mark.parametrize("first", [None, "", 7])
def test_an_upstream_without_ids_gets_the_request_id(first: object) -> None:
    played = send(events(chunk(role(), id=first), chunk(text("a"), id=first)))
    assert {one["id"] for one in played.chunks} == {"chatcmpl-request-1"}


def test_only_the_top_level_is_edited() -> None:
    inner = {"model": "theirs", "id": "5319", 'x"model': "theirs", "usage": USAGE}
    value = chunk(
        choice({"content": '"model":"theirs" \\"id\\":\\"5319\\"', "own": inner}), x=inner
    )
    wanted = {**value, "id": "chatcmpl-5319", "model": MODEL}
    body = events(chunk(role(), id="5319"), {**value, "id": "5319"})
    assert send(body).chunks[1] == wanted


@pytest.mark.parametrize("place", ["first", "later"])
def test_a_model_that_is_missing_is_not_invented(place: str) -> None:
    bare = [{key: value for key, value in one.items() if key != "model"} for one in
            (chunk(role()), chunk(text("Hi")), chunk(stop()))]  # fmt: skip
    body = events(*bare) if place == "first" else events(chunk(role()), *bare[1:])
    assert send(body + DONE).out == ours(body + DONE)


def test_broken_text_passes_as_it_is() -> None:
    """Invalid UTF-8 and lone surrogates are the upstream's, before and after a template."""
    bad = HI.replace(b"Hi", b"\xff\xc3") + HI.replace(b"Hi", rb"\ud800")
    body = BEGIN + bad + HI + HI + bad + END + DONE
    assert send(body).out == ours(body)


@pytest.mark.parametrize("depth", [300, 1000])
def test_a_deeply_nested_event_is_no_fault_of_ours(depth: int) -> None:
    deep = b'data: {"choices":[{"index":0,"delta":{"content":"a","x":' + b"[" * depth + b"]" * depth
    played = play(ChatStream(make_context()), [BEGIN + deep + b"}}]}\n\n" + END + DONE])
    assert played.complete or played.failure


# Events beyond all measure


def big(extra: int = 200_000) -> bytes:
    """One content event longer than events are held, by more than comes in one read."""
    return event(chunk(text("x" * (MAX_EVENT_BYTES + extra))))


def pieces_of(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("size", [1000, 65_536, 65_537])
def test_an_oversized_event_passes_unedited_to_its_boundary(end: bytes, size: int) -> None:
    """What stands before and behind it is edited all the same."""
    tail = (HI + END + DONE).replace(b"\n", end)
    head, body = BEGIN.replace(b"\n", end), big().replace(b"\n", end)
    played = play(ChatStream(make_context()), pieces_of(head + body + tail, size))
    done = DONE
    assert (
        played.out == ours(head) + body + ours(tail.removesuffix(DONE.replace(b"\n", end))) + done
    )
    assert played.complete
    assert played.tokens.output >= (MAX_EVENT_BYTES + 2) // 4


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_an_oversized_event_ends_at_its_boundary_in_any_slicing(end: bytes) -> None:
    whole = (big() + HI + END + DONE).replace(b"\n", end)
    begun, at = MAX_EVENT_BYTES + 1, len(big().replace(b"\n", end))
    expected = ours(BEGIN) + whole[:at] + ours((HI + END).replace(b"\n", end)) + DONE
    for cut in range(at - 6, at + 7):
        pieces = [BEGIN, whole[:begun], whole[begun:cut], whole[cut:]]
        assert play(ChatStream(make_context()), pieces).out == expected, cut - at


def test_an_oversized_event_is_told_while_it_passes() -> None:
    """Nothing may be put in between, so the relay asks."""
    stream = ChatStream(make_context())
    fed = 0
    for piece in pieces_of(big(), 65_536):
        fed += len(piece)
        stream.feed(piece)
        assert stream.mid_event == (MAX_EVENT_BYTES < fed < len(big()))
    assert stream.begun


def test_an_event_up_to_the_measure_is_held_and_edited() -> None:
    body = event(chunk(text("x" * (MAX_EVENT_BYTES - len(HI)))))
    assert len(body) < MAX_EVENT_BYTES
    assert play(
        ChatStream(make_context()), pieces_of(WHOLE[: -len(DONE)] + body, 5000)
    ).out.startswith(ours(BEGIN + HI + END + body))


def test_a_cut_in_an_oversized_event_is_never_complete() -> None:
    """Though every choice has finished: what was sent ends in the middle of an event."""
    stream = ChatStream(make_context())
    stream.feed(BEGIN + END)
    stream.feed(big()[:-2])
    assert stream.mid_event
    stream.end()
    assert not stream.complete


# The meter


@pytest.mark.parametrize("absurd", [{**USAGE, "prompt_tokens": -1}, {**USAGE, "total_tokens": 10**9},
                                    {**USAGE, "completion_tokens": 1.5}, {}])  # fmt: skip
def test_an_absurd_usage_is_estimated(absurd: Json) -> None:
    played = send(BEGIN + HI + END + event(chunk(usage=absurd)) + DONE, limits=100)
    assert (played.tokens, played.estimated) == (Tokens(INPUT_ESTIMATE, output=1), True)


def test_the_last_usage_that_is_not_null_counts() -> None:
    first, last = {**USAGE, "completion_tokens": 1, "total_tokens": 10}, USAGE
    body = events(
        chunk(role(), usage=first), chunk(text("a"), usage=last), chunk(stop(), usage=None)
    )
    assert send(body + DONE).tokens == Tokens(9, output=3)


def test_after_the_end_the_report_counts_even_if_more_was_said() -> None:
    long = event(chunk(text("x" * 400)))
    reported = event(chunk(usage=USAGE))
    assert send(BEGIN + long + END + reported + DONE).tokens == Tokens(9, output=3)
    cut = play(ChatStream(make_context()), [BEGIN + long + reported])
    assert (cut.tokens, cut.estimated) == (Tokens(9, output=100), True)


@pytest.mark.parametrize("delta", [
    {"content": "12345"}, {"reasoning_content": "12345"}, {"reasoning": "12345"}, {"refusal": "12345"},
    {"content": "123", "reasoning": "45"}, {"function_call": {"arguments": "12345"}},
    {"tool_calls": [{"index": 0, "type": "function", "function": {"arguments": "12345"}}]},
])  # fmt: skip
@pytest.mark.parametrize("times", [1, 5])
def test_all_that_is_delivered_counts(delta: dict[str, Any], times: int) -> None:
    played = send(BEGIN + event(chunk(choice(delta))) * times)
    assert (played.tokens.output, played.delivered) == (-(-5 * times // 4), True)


def test_nothing_delivered_is_nothing() -> None:
    played = send(BEGIN + event(chunk(text(""))))
    assert (played.tokens, played.delivered) == (Tokens(INPUT_ESTIMATE), False)


def test_limits_are_those_of_the_context() -> None:
    assert make_context(limits=5).limits == UsageLimits(5, 5)
    assert re.fullmatch(r"chatcmpl-.+", chunk()["id"])
