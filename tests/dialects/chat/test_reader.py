"""Reading a chat upstream: what is a completion, what ends a stream, and which usage counts."""

from __future__ import annotations

from gateway.dialects.chat.stream import ChatReader
from gateway.dialects.wire.sse import parse_event
from tests.dialects.chat.kit import Json, choice, chunk, dump, event, make_context, role, stop, text
from tests.support.rows import each_row


def read(*chunks: Json, n: int = 1) -> ChatReader:
    reader = ChatReader(make_context(n=n))
    for one in chunks:
        reader.read(parse_event(event(one)))
    return reader


def test_a_stream_is_finished_once_every_choice_is() -> None:
    reader = read(chunk(role(), role(1)), n=2)
    assert (reader.begun, reader.finished, reader.ended) == (True, False, False)
    for index, finished in ((0, False), (1, True)):
        reader.read(parse_event(event(chunk(stop(index)))))
        assert reader.finished is finished
    assert not reader.ended, "its terminal event has not come"
    assert reader.read(parse_event(b"data: [DONE]\n\n")) == []
    assert reader.ended


def test_choices_that_were_not_asked_for_are_waited_for_too() -> None:
    assert not read(chunk(role(), role(1)), chunk(stop())).finished


@each_row(
    ("rest", "ends"),
    [
        (b"data: [DONE]\n", True),
        (b"data: [DONE]\r\n", True),
        (b"data: [DONE]", False),
        (b"data: [DONE] \n", True),
        (b"data: [DO", False),
        (b": comment\n", False),
    ],
)
def test_done_ends_a_stream_with_its_line(rest: bytes, *, ends: bool) -> None:
    """Some upstreams keep the connection open behind it."""
    assert ChatReader(make_context()).is_end(rest) is ends


def test_finish_reasons_that_are_missing_at_done_are_made_up_for() -> None:
    reader = read(chunk(role()), chunk(text("Hi")))
    (last,) = reader.close()
    assert last["id"] == chunk()["id"]
    assert [one["finish_reason"] for one in last["choices"]] == ["stop"]
    assert read(chunk(role()), chunk(stop())).close() == []


def test_the_end_of_a_chunk_too_large_to_hold_is_searched() -> None:
    reader = ChatReader(make_context())
    told = {"prompt_tokens": 5, "completion_tokens": 2}
    reader.read_end(b'aaa"},"finish_reason": "stop"}],' + dump(told), told)
    assert reader.finished
    assert reader.usage == told
    in_a_text = ChatReader(make_context())
    in_a_text.read_end(dump({"content": '"finish_reason": "stop"'}), None)
    assert not in_a_text.begun, "inside a text the quotes are escaped"


def test_a_chunk_without_choices_brings_none() -> None:
    reader = ChatReader(make_context())
    for one in (chunk(), {"choices": None}, {}):
        assert reader.read(parse_event(event(one))) == []
    assert (
        len(reader.read(parse_event(event(chunk(choice({"role": "assistant", "content": ""}))))))
        == 1
    )
