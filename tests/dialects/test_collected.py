"""An upstream that replies to a request for a stream with JSON: the caller gets the stream."""

from __future__ import annotations

import tracemalloc

from gateway.base.errors import UndeliverableReply
from gateway.base.money import Tokens
from gateway.dialects.exchanges import MAX_REPLY_BYTES, MAX_REPLY_ELEMENTS, looks_like_json
from gateway.dialects.wire.pipelines import Pipeline
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    Played,
    check_stream,
    dump,
    each_byte,
    make_context,
    make_dice,
    play,
    random_slices,
)
from tests.support.accumulated import accumulate
from tests.support.formats import EXCHANGES
from tests.support.rows import each_row

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
REPLY = dump(
    {
        "id": "5319bd",
        "object": "chat.completion",
        "created": 1,
        "model": "theirs",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hällo", "tool_calls": [CALL]},
                "finish_reason": "tool_calls",
            },
            {"index": 1, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"},
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }
)


def replayed(*, usage: bool = True, n: int = 2) -> Pipeline:
    exchange = EXCHANGES["chat"]["chat"]
    return exchange.open_replay(make_context(usage=usage, n=n))


def replay(body: bytes = REPLY, *, usage: bool = True, n: int = 2) -> Played:
    return play(replayed(usage=usage, n=n), [body])


@each_row("usage", [False, True])
def test_a_json_reply_becomes_a_stream_that_keeps_the_rules(*, usage: bool) -> None:
    played = replay(usage=usage)
    assert played.complete
    assert played.out.endswith(DONE)
    check_stream(played.chunks, usage=usage)
    said = accumulate(played.chunks)
    assert said.choices[0].text == "Hällo"
    assert said.choices[0].tool_calls[0].arguments == "{}"
    assert [said.choices[index].finish_reason for index in (0, 1)] == ["tool_calls", "stop"]
    assert said.usage == ((9, 3, 12) if usage else None)
    assert (played.tokens, played.estimated) == (Tokens(9, output=3), False)


def test_nothing_goes_out_before_the_reply_is_whole() -> None:
    pipeline = replayed()
    assert b"".join(pipeline.feed(byte) for byte in each_byte(REPLY)) == b""
    assert not pipeline.begun
    assert not pipeline.complete
    assert pipeline.end()
    assert pipeline.begun
    assert pipeline.complete
    assert pipeline.finished
    assert pipeline.delivered
    assert not pipeline.mid_event
    assert pipeline.take_last() == DONE


def test_slicing_does_not_matter() -> None:
    dice = make_dice()
    expected = replay()
    for _ in range(50):
        assert play(replayed(), random_slices(REPLY, dice)) == expected


def test_a_cut_reply_never_becomes_a_stream() -> None:
    for cut in range(1, len(REPLY)):
        played = replay(REPLY[:cut])
        assert (played.out, played.complete) == (b"", False)
        assert played.failure
        told = Tokens(9, output=3) if cut == len(REPLY) - 1 else Tokens(INPUT_ESTIMATE)
        assert played.tokens == told, "a usage that can be read is charged"
        assert not played.delivered


def test_a_reply_without_usage_is_estimated() -> None:
    played = replay(REPLY.replace(b'"usage"', b'"other"'))
    assert (played.tokens, played.estimated) == (Tokens(INPUT_ESTIMATE, output=2), True)


def test_a_reply_beyond_all_measure_fails() -> None:
    pipeline = replayed()
    piece = b'{"a":"' + b"x" * (1 << 20)
    fed = 0
    while pipeline.failure is None:
        assert fed <= MAX_REPLY_BYTES
        assert pipeline.feed(piece) == b""
        fed += len(piece)
    assert pipeline.failure.status == 502
    assert fed > MAX_REPLY_BYTES
    assert isinstance(pipeline.failure, UndeliverableReply)
    assert pipeline.measure().tokens == Tokens(INPUT_ESTIMATE, output=1600)


@each_row(("begin", "owed"), [(b' {"a":"', True), (b"<!DOCTYPE html>", False)])
def test_a_reply_too_large_to_deliver_is_owed_unless_it_is_a_page(
    begin: bytes, *, owed: bool
) -> None:
    pipeline = EXCHANGES["chat"]["chat"].open_reply(make_context())
    pipeline.feed(b"\n")
    pipeline.feed(begin + b"x" * MAX_REPLY_BYTES)
    assert pipeline.failure is not None
    assert isinstance(pipeline.failure, UndeliverableReply) == owed
    assert pipeline.measure().tokens == Tokens(INPUT_ESTIMATE, output=1600 if owed else 0)


def test_a_large_reply_is_in_memory_once() -> None:
    pipeline = EXCHANGES["chat"]["chat"].open_reply(make_context())
    body = REPLY.replace("Hällo".encode(), b"x" * 8_000_000)
    tracemalloc.start()
    try:
        for at in range(0, len(body), 65536):
            pipeline.feed(body[at : at + 65536])
        collected, _ = tracemalloc.get_traced_memory()
        pipeline.end()
        written, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert b"theirs" not in pipeline.take_last(), "it is another text than the one that came"
    assert max(collected, written) < 1.5 * len(body)


@each_row("body", [b"{", b"[", b" \r\n\n\t{", b'[{"error":1}]'])
def test_json_is_recognised_by_its_first_byte(body: bytes) -> None:
    assert looks_like_json(body)


@each_row("body", [b"", b"\n\n", b"data: {}", b": c\n\n", b"event: x", b"\xef\xbb\xbf"])
def test_streams_are_not_taken_for_json(body: bytes) -> None:
    assert not looks_like_json(body)


@each_row("stream", [False, True])
def test_a_reply_of_too_many_elements_cannot_be_passed_on_but_is_paid(*, stream: bool) -> None:
    """It was made, so what one too large costs is charged; it is not parsed."""
    exchange, context = EXCHANGES["chat"]["chat"], make_context()
    pipeline = exchange.open_replay(context) if stream else exchange.open_reply(context)
    pipeline.feed(b'{"a":[' + b"0," * MAX_REPLY_ELEMENTS + b"0]}")
    assert pipeline.end() == b""
    assert isinstance(pipeline.failure, UndeliverableReply)
    assert not pipeline.complete
    assert pipeline.measure().tokens.output > 0
