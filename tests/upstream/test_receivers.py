"""Receivers of bodies: what begins like a reply. `test_connection.py` has those that are packed."""

from __future__ import annotations

from typing import Final

import pytest

from gateway.base.errors import UpstreamError
from gateway.upstream.receivers import CheckedBody, Wants, begins_reply
from tests.support.rows import each_row
from tests.upstream.kit import Taker

BOM: Final = b"\xef\xbb\xbf"
REPLIES: Final = (b'{"id"', b"data: {", b"event: x", b"id: 1", b"retry: 5", b": hi", b"data:")
NO_REPLIES: Final = (
    b"<html>", b"[1]", b"date: 1", b"hello", b"\x1f\x8b", b"HTTP/1.1", b'"x"', b"dat\n",
)  # fmt: skip


@each_row("prefix", [b"", b"\r\n \n", BOM, BOM + b"\n"])
@each_row("body", REPLIES)
def test_what_begins_like_a_reply_is_passed_on_whole(body: bytes, prefix: bytes) -> None:
    """However the bytes are cut; blank ones before it may go."""
    assert begins_reply(prefix + body)
    for cut in range(len(prefix + body) + 1):
        taker = Taker(full=True)
        checked = CheckedBody(taker)
        checked.receive((prefix + body)[:cut])
        assert checked.receive((prefix + body)[cut:]) is Wants.ROOM
        assert checked.receive(b"\n<") is Wants.ROOM
        checked.end()
        assert taker.body == (prefix + body).lstrip() + b"\n<"


@each_row("prefix", [b"", b"\n", BOM])
@each_row("body", NO_REPLIES)
def test_what_begins_otherwise_is_no_reply(body: bytes, prefix: bytes) -> None:
    for cut in range(len(prefix + body)):
        checked = CheckedBody(taker := Taker())
        pieces = ((prefix + body)[:cut], (prefix + body)[cut:])
        with pytest.raises(UpstreamError, match="neither events nor JSON"):
            _ = [checked.receive(piece) for piece in pieces]
        assert taker.body == b""


@each_row("body", [b"", b"\n" * 9, b"even", BOM[:2], BOM])
def test_what_never_begins_is_no_reply(body: bytes) -> None:
    checked = CheckedBody(Taker())
    assert checked.receive(body) is Wants.MORE
    assert checked._beginning is not None
    assert len(checked._beginning) < len(BOM + b"event:")
    with pytest.raises(UpstreamError):
        checked.end()


async def test_a_receiver_that_asks_to_wait_is_waited_for() -> None:
    taker = Taker()
    taker.room.set()
    await CheckedBody(taker).unblock()
    assert taker.asked.is_set()
