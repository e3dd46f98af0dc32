"""The vectors in a reply: where they are, and floats packed as base64.

A reply has megabytes of them. They are never parsed where they pass: a reply is read without what
lies between the beginning of its first vector and the end of its last one.
"""

from __future__ import annotations

import re
import struct
from binascii import b2a_base64
from dataclasses import dataclass
from typing import Final, Self

import orjson

from gateway.errors import UpstreamError

MAX_FRAME_BYTES: Final = 1 << 20
"""Bytes of a reply without its vectors, which are read as JSON: replies have some hundred."""
MAX_VECTOR_BYTES: Final = 1 << 20
"""Bytes of a vector: 40,000 floats, ten times as many as the largest models make. It bounds how long
one is read, while no other thread runs."""
STAND_IN: Final = b"0"
"""The value of `embedding` in a frame."""

_KEY: Final = b'"embedding"'
_VECTOR: Final = re.compile(_KEY + rb'\s*:\s*(?=[\["])')
"""The key of a vector: `object` is "embedding", too. Inside a string its quotes would be escaped."""
_CLOSING: Final = {b"[": b"]", b'"': b'"'}
_MAX_HITS: Final = 4
"""Occurrences of the word that are tried: an item has two."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A reply around its vectors: all bytes before the first, and all behind the last."""

    head: bytes
    tail: bytes

    @property
    def text(self) -> bytes:
        """The reply as if it had one item: that begins like the first and ends like the last."""
        return self.head + STAND_IN + self.tail

    def replace(self, text: bytes) -> Self:
        """Return the frame of `text`, which is that of this one with a single edit."""
        before = self.head + STAND_IN
        if text.startswith(before):
            return self.__class__(self.head, text[len(before) :])
        return self.__class__(text[: -len(self.tail) - len(STAND_IN)], self.tail)


def maybe_find_vectors(text: bytes) -> tuple[int, int] | None:
    """Find the beginning of the first vector and the end of the last one; None without any."""
    first = _VECTOR.search(text, 0, MAX_FRAME_BYTES)
    if first is None:
        return None
    least = max(first.start(), len(text) - MAX_FRAME_BYTES - MAX_VECTOR_BYTES)
    at = len(text)
    for _ in range(_MAX_HITS):
        at = text.rfind(_KEY, least, at)
        if at < 0:
            break
        if last := _VECTOR.match(text, at):
            begin = last.end()
            end = text.find(_CLOSING[text[begin : begin + 1]], begin + 1) + 1
            return (first.end(), end) if end else None
    return None


def pack_vectors(text: bytes) -> bytes:
    """Write arrays of floats as base64 of little-endian float32, one by one.

    `text` reaches from the beginning of the first vector to the end of the last. Raises UpstreamError.
    """
    pieces = []
    begin = 0
    while True:
        end = text.find(b"]", begin) + 1
        pieces.append(_pack(text[begin:end]))
        following = _VECTOR.search(text, end)
        if following is None:
            return b"".join(pieces)
        begin = following.end()
        pieces.append(text[end:begin])


def _pack(vector: bytes) -> bytes:
    if len(vector) > MAX_VECTOR_BYTES:
        raise UpstreamError("The upstream provider's vectors are too large.")
    try:
        numbers = orjson.loads(vector)
        packed = struct.pack(f"<{len(numbers)}f", *numbers)
    except (orjson.JSONDecodeError, struct.error, OverflowError) as error:
        raise UpstreamError("The upstream provider's vectors are no arrays of numbers.") from error
    return b'"%b"' % b2a_base64(packed, newline=False)
