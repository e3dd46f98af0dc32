"""Bodies of replies: what is read without a type that says what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pytest

from gateway.errors import UpstreamError
from gateway.upstream.attempt import CheckedBody, begins_reply, is_reply_type
from tests.support.rows import each_row

BOM: Final = b"\xef\xbb\xbf"
TYPES: Final = {
    "text/event-stream": True,
    "Text/Event-Stream ; charset=utf-8": True,
    "application/json": True,
    "application/json;charset=UTF-8": True,
    "application/problem+json": True,
    "": False,
    "text/plain": False,
    "text/html; x=application/json": False,
    "application/x-ndjson": False,
    "application/jsonp": False,
}
REPLIES: Final = (b'{"id"', b"data: {", b"event: x", b"id: 1", b"retry: 5", b": hi", b"data:")
NO_REPLIES: Final = (
    b"<html>",
    b"[1]",
    b"date: 1",
    b"hello",
    b"\x1f\x8b",
    b"HTTP/1.1",
    b'"x"',
    b"dat\n",
)


@dataclass(slots=True)
class Taker:
    body: bytes = b""
    asked: bool = False

    def receive(self, data: bytes) -> bool:
        self.body += data
        return False

    async def unblock(self) -> None:
        self.asked = True


@each_row("content_type", TYPES)
def test_events_and_json_are_told_by_their_type(content_type: str) -> None:
    assert is_reply_type(content_type.encode()) is TYPES[content_type]


@each_row("prefix", [b"", b"\r\n \n", BOM, BOM + b"\n"])
@each_row("body", REPLIES)
def test_what_begins_like_a_reply_is_passed_on_whole(body: bytes, prefix: bytes) -> None:
    """However the bytes are cut; blank ones before it may go."""
    assert begins_reply(prefix + body)
    for cut in range(len(prefix + body) + 1):
        taker = Taker()
        checked = CheckedBody(taker)
        checked.receive((prefix + body)[:cut])
        assert checked.receive((prefix + body)[cut:]) is False
        assert checked.receive(b"\n<") is False
        checked.end()
        assert taker.body == (prefix + body).lstrip() + b"\n<"


@each_row("prefix", [b"", b"\n", BOM])
@each_row("body", NO_REPLIES)
def test_what_begins_otherwise_is_no_reply(body: bytes, prefix: bytes) -> None:
    for cut in range(len(prefix + body)):
        checked = CheckedBody(taker := Taker())
        with pytest.raises(UpstreamError, match="neither events nor JSON"):
            checked.receive((prefix + body)[:cut]) and checked.receive((prefix + body)[cut:])
        assert taker.body == b""


@each_row("body", [b"", b"\n" * 9, b"even", BOM[:2], BOM])
def test_what_never_begins_is_no_reply(body: bytes) -> None:
    checked = CheckedBody(Taker())
    assert checked.receive(body)
    assert checked._held is not None
    assert len(checked._held) < len(BOM + b"event:")
    with pytest.raises(UpstreamError):
        checked.end()


async def test_a_receiver_that_asks_to_wait_is_waited_for() -> None:
    taker = Taker()
    await CheckedBody(taker).unblock()
    assert taker.asked
