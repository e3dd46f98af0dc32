"""Server-sent events as bytes: where one ends, what it holds (wire.md §6). No I/O.

Lines end in LF, CR or CRLF; a blank line ends an event; fields are split at the first colon, one
space after it removed. What is passed on is the raw block, so nothing here changes bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_EVENT_BYTES: Final = 1 << 20
"""Events are handed on whole up to this; a longer one (base64 audio) passes in pieces."""

BOM: Final = b"\xef\xbb\xbf"

# A CR at the very end may be the first half of a CRLF, so it ends no line yet. The groups are
# atomic: CRLF must never be read as two line ends.
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?!\Z))")
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Event:
    """One parsed block. `data` is None when it has no data line; comments keep their colon."""

    name: str
    data: bytes | None
    comments: tuple[bytes, ...]
    canonical: bool
    """Exactly one line `data: …`: such a block may be passed on as it is."""


def find_event_end(buffer: bytes, start: int) -> int:
    """The index behind the blank line that ends the block at `start`, or -1."""
    if b"\r" not in buffer:
        at = buffer.find(b"\n\n", start)
        return -1 if at < 0 else at + 2
    match = _BLANK_LINE.search(buffer, start)
    return match.end() if match else -1


def parse_event(block: bytes) -> Event:
    """The fields of one block. Unknown fields, `id` and `retry` are read over."""
    name = ""
    data: list[bytes] = []
    comments: list[bytes] = []
    lines = [line for line in _LINE_END.split(block) if line]
    for line in lines:
        if line.startswith(b":"):
            comments.append(line)
            continue
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    canonical = len(lines) == 1 and lines[0].startswith(b"data: ")
    return Event(name, b"\n".join(data) if data else None, tuple(comments), canonical)


class Carry:
    """What has arrived of an event that is not whole yet.

    Pieces are joined only when a line end is among what came, so a long line that arrives in
    small pieces costs its length once, not its square.
    """

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def join(self, data: bytes) -> bytes | None:
        """All of it with `data` behind it and nothing kept; None when no event can end here."""
        if not self._pieces:
            return data
        self._pieces.append(data)
        self.size += len(data)
        if b"\n" not in data and b"\r" not in data and not self._pieces[-2].endswith(b"\r"):
            return None
        return self.take()

    def keep(self, rest: bytes) -> None:
        if rest:
            self._pieces = [rest]
            self.size = len(rest)

    def take(self) -> bytes:
        joined = b"".join(self._pieces)
        self._pieces = []
        self.size = 0
        return joined
