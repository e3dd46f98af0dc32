"""Translated streams, with a reader and a writer of the test's own: order, endings, what is owed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from gateway.base.errors import UndeliverableReply, UpstreamError
from gateway.base.money import Tokens
from gateway.base.usage import Expected, Reported
from gateway.dialects.wire.pipelines import EventReader, EventWriter
from gateway.dialects.wire.records import Json, ReplyUsage
from gateway.dialects.wire.sse import MAX_LINES, parse_event
from gateway.dialects.wire.stream import (
    MAX_IDLE_BYTES,
    MAX_TRANSLATED_EVENT_BYTES,
    TranslatedStream,
)
from tests.dialects.chat.kit import make_context
from tests.support.rows import each_row

MAX_IDLE_PASSED: Final = 64

HI = b'data: {"say": "Hi"}\n\n'
BYE = b'data: {"end": 1}\n\n'
USAGE = b'data: {"usage": {"output": 3}}\n\n'
"""Events of the test's own dialect; its terminal one is `end`."""
PING: Final = b'event: ping\ndata: {"type": "ping"}\n\n'


class Words(EventReader):
    """An `EventReader`: `say` is text, `usage` a report, `end` the terminal event, `oops` an error."""

    begun = finished = False

    def _read_object(self, body: Json, _: str) -> Json | None:
        if "oops" in body:
            raise UpstreamError(str(body["oops"]))
        self.usage = body.get("usage", self.usage)
        self.ended = "end" in body
        self.finished |= self.ended or self.usage is not None
        self.begun |= "say" in body
        return body if "say" in body else None

    def close(self) -> Sequence[Json]:
        return [{"say": "!"}]

    def read_report(self, _: Expected) -> Reported:
        output = (self.usage or {}).get("output")
        return Reported() if output is None else Reported(Tokens(1, output=output), True, True)


class Echo(EventWriter):
    """A `EventWriter` of plain words."""

    def __init__(self, refuses: str) -> None:
        super().__init__()
        self.refuses = refuses

    def open(self, _: ReplyUsage) -> None:
        self._out.append(b"<")

    def write(self, event: Json) -> None:
        if event["say"] == self.refuses:
            raise UndeliverableReply("cannot be written")
        self.text_bytes += len(event["say"])
        self._out.append(event["say"].encode())

    def flush(self) -> None:
        self._out.append(b"|")

    def close(self, usage: ReplyUsage) -> None:
        self._out.append(b"%d>" % usage.tokens.output)

    def take_last(self) -> bytes:
        return b"END"


def make_stream(refuses: str = "") -> TranslatedStream:
    return TranslatedStream(make_context(), Words(), Echo(refuses))


def play(body: bytes, refuses: str = "", size: int | None = None) -> tuple[bytes, TranslatedStream]:
    stream, out = make_stream(refuses), b""
    for at in range(0, len(body), size or len(body)):
        if not stream.complete and stream.failure is None:
            out += stream.feed(body[at : at + (size or len(body))])
    if not stream.complete and stream.failure is None:
        out += stream.end()
    return out, stream


@each_row("size", [None, 1, 7])
def test_the_order_is_open_write_flush_close_finish(size: int | None) -> None:
    out, stream = play(HI + USAGE + BYE + HI, size=size)
    assert out == b"<Hi!|3>"
    assert (stream.complete, stream.failure, stream.take_last()) == (True, None, b"END")
    assert stream.measure().tokens.output == 3, "nothing behind the end is read"


def test_events_leave_in_the_call_that_brings_them_and_comments_between() -> None:
    stream = make_stream()
    assert stream.feed(b": wait\n\n") == b": wait\n\n"
    assert not stream.begun
    assert stream.feed(HI[:5]) == b""
    assert stream.feed(HI[5:] + b": wait\n\n") == b"<Hi: wait\n\n"
    assert stream.begun


def test_a_clean_end_stands_for_the_terminal_event_once_all_is_finished() -> None:
    assert play(HI + USAGE)[0] == b"<Hi!|3>"
    out, stream = play(HI)
    assert (out, stream.complete, stream.failure) == (b"<Hi", False, None)


@each_row("data", [b"data: x\n\n", b"data: [1]\n\n"])
def test_an_event_that_is_no_object_is_the_upstreams_fault(data: bytes) -> None:
    with pytest.raises(UpstreamError):
        Words().read_event(parse_event(data))


def test_an_event_too_large_to_translate_ends_the_stream() -> None:
    stream = make_stream()
    stream.feed(HI)
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
    out = stream.feed(HI + row)
    assert stream.failure is None
    assert out.count(b"comment") + out.count(b":\n\n") <= MAX_IDLE_PASSED
    assert stream.feed(HI + row) != b"", "the row begins anew behind an event"
    assert stream.failure is None
    stream.feed(idle * 64)
    assert isinstance(stream.failure, UpstreamError)
    assert stream.measure().tokens.output > 0, "what came before is charged"


@each_row("size", [1, 2, 3, 7])
@each_row("idle", IDLE)
def test_a_row_of_nothing_is_the_same_in_pieces(idle: bytes, size: int) -> None:
    body = HI + idle * 100 + HI + b": kept\n\n" + BYE
    assert play(body, size=size)[0] == play(body)[0]


def test_an_event_of_very_many_lines_is_no_event() -> None:
    """Each of them takes a step."""
    lines = b"data:1\n:\n" * MAX_LINES
    assert isinstance(play(HI + lines + b"\n")[1].failure, UpstreamError)
    assert play(b"data: {\n" + b"data:\n" * (MAX_LINES // 2) + b'data: "say": "Hi"}\n\n' + USAGE)[0]
