"""Translated streams: what says nothing, and events too large or of too many lines.

Their order and endings are in `heard.txt` and `test_to_chat`, what is owed in `test_metering`.
"""

from __future__ import annotations

from typing import Final

from gateway.base.errors import UndeliverableReply, UpstreamError
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.sse import MAX_LINES
from gateway.dialects.wire.stream import MAX_IDLE_BYTES, MAX_TRANSLATED_EVENT_BYTES
from tests.dialects.chat.kit import BEGIN, DONE, END, HI, each_byte, make_context, play
from tests.support.formats import EXCHANGES
from tests.support.rows import each_row

MAX_IDLE_PASSED: Final = 64
PING: Final = b'event: ping\ndata: {"type": "ping"}\n\n'


def make_stream() -> Pipeline:
    stream = EXCHANGES["messages"]["chat"].open_stream(make_context(usage=True))
    stream.feed(BEGIN + HI)
    return stream


def test_an_event_too_large_to_translate_ends_the_stream() -> None:
    stream = make_stream()
    assert stream.feed(b"data: " + b"x" * MAX_TRANSLATED_EVENT_BYTES) == b""
    assert isinstance(stream.failure, UndeliverableReply)


IDLE: Final = [
    b":\n\n", b":\n", b": a comment\r\n\r\n", b"data:\n\n", b"data: \r\n\r\n", b"\n", PING,
]  # fmt: skip


@each_row("idle", IDLE)
def test_what_says_nothing_costs_no_step_each_and_a_row_of_it_is_cut(idle: bytes) -> None:
    """A provider sent 6 MB of it, and everybody stood for seconds."""
    stream = make_stream()
    row = idle * (MAX_IDLE_BYTES // len(idle))
    out = stream.feed(row)
    assert stream.failure is None
    assert out.count(b"comment") + out.count(b":\n\n") <= MAX_IDLE_PASSED
    assert stream.feed(HI + row) != b"", "the row begins anew behind an event"
    assert stream.failure is None
    stream.feed(idle * 64)
    assert isinstance(stream.failure, UpstreamError)
    assert stream.measure().tokens.output > 0, "what came before is charged"


def test_nothing_follows_a_failure() -> None:
    stream = make_stream()
    stream.feed(END + b'data: {"error": {"message": "m"}}\n\n')
    assert stream.failure is not None
    assert (stream.end(), stream.complete) == (b"", False)


def test_comments_pass_unless_the_dialect_has_pings() -> None:
    assert make_stream().feed(b": alive\n\n") == b": alive\n\n"
    assert EXCHANGES["chat"]["messages"].open_stream(make_context()).feed(b": alive\n\n") == b""


@each_row("idle", IDLE)
def test_a_row_of_nothing_is_the_same_in_pieces(idle: bytes) -> None:
    body = idle * 100 + HI + b": kept\n\n" + END + DONE
    assert play(make_stream(), each_byte(body)) == play(make_stream(), [body])


def test_an_event_of_very_many_lines_is_no_event() -> None:
    """Each of them takes a step."""
    stream = make_stream()
    stream.feed(b"data:1\n:\n" * MAX_LINES + b"\n")
    assert "too many lines" in str(stream.failure)
    lines = HI.replace(b": {", b": {\n" + b"data:\n" * (MAX_LINES // 2) + b"data: ")
    assert b"Hi" in make_stream().feed(lines)
