"""Server-sent events as bytes: finding their ends, reading them, and whole events from any slicing.

The rules are those of the WHATWG HTML standard: lines end in LF, CR or CRLF; a blank line ends an event;
fields are split at the first colon, one space after it removed. The raw block is passed on, so reading
changes no bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from gateway.base.errors import UpstreamError
from gateway.dialects.wire.jsonbytes import dumps_lenient, maybe_loads
from gateway.dialects.wire.records import Event, Json

MAX_EVENT_BYTES: Final = 1 << 20
"""Bytes of an event that is passed on whole; longer events (base64 audio) pass in pieces."""

MAX_LINES: Final = 5_000
"""Lines of an event, which take 2 ms to read. JSON has one line, or some hundred if it is indented."""

SHORT_BYTES: Final = 64
"""Bytes up to which pieces are joined at once: some terminal events need no blank line."""

BOM: Final = b"\xef\xbb\xbf"
_FIELD: Final = re.compile(rb"(?:data|event|id|retry)?:")
"""The beginning of an event, or of a comment."""
DONE_DATA: Final = b"[DONE]"
"""The only event data that is no JSON: it ends chat streams."""

# A final CR may be the first half of a CRLF, so it does not end a line yet. The groups are atomic, so
# that CRLF is never read as two line ends.
_BLANK_LINE = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?!\Z))")
_LINE_END: Final = rb"(?>\r\n|\n|\r(?!\Z))"
COMMENT: Final = re.compile(rb"(?:(?<=[\r\n])|\A):[^\r\n]*+")
IDLE: Final = re.compile(
    rb"(?>:[^\r\n]*+%(end)b|data: ?+%(end)b%(end)b|%(end)b)++" % {b"end": _LINE_END}
)
"""Matches any number of comments, blank lines and events without data, so that a provider which sends
nothing else takes one step instead of one for each."""
PINGS: Final = re.compile(
    rb"(?>event: ?+ping%(end)bdata:[^\r\n]*+%(end)b%(end)b)++" % {b"end": _LINE_END}
)
IDLE_BEGINNINGS: Final = (
    *(b":", b"\n", b"\r", b"data:\n", b"data: \n", b"data:\r", b"data: \r"),
    *(b"event: ping", b"event:ping"),
)
"""The beginnings of `IDLE` and of `PINGS`, for a quick test before the patterns."""


def find_event_end(buffer: bytes, start: int) -> int:
    """Find the index after the blank line that ends the block at `start`, or -1."""
    # Nearly all providers end lines with LF, for which `find` is many times faster than the pattern.
    if b"\r" not in buffer:
        at = buffer.find(b"\n\n", start)
        return -1 if at < 0 else at + 2
    match = _BLANK_LINE.search(buffer, start)
    return match.end() if match else -1


def parse_event(block: bytes) -> Event:
    """Read the fields of one block. Unknown fields, `id` and `retry` are left out.

    Raises UpstreamError for a block of very many lines.
    """
    # Lines are counted first, as splitting makes an object of each.
    if len(block) > MAX_LINES and block.count(b"\n") + block.count(b"\r") > 2 * MAX_LINES:
        raise UpstreamError("The upstream provider sent an event of too many lines.")
    # Nearly all events of chat are one line of data.
    if block.startswith(b"data: "):
        only = block[6:].rstrip(b"\r\n")
        if b"\n" not in only and b"\r" not in only:
            return Event("", only, (), True)
    name = ""
    data: list[bytes] = []
    comments: list[bytes] = []
    # bytes.splitlines splits at LF, CR and CRLF, as the standard requires; str.splitlines also at others.
    lines = [*filter(None, block.splitlines())]
    for line in lines:
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ").decode("utf-8", "replace")
        elif not field:
            comments.append(line)
    # `[DONE]` counts as soon as its line is whole, so further data of its event is dropped.
    if len(data) > 1 and data[0].strip() == DONE_DATA:
        del data[1:]
    canonical = len(lines) == 1 and lines[0].startswith(b"data: ")
    return Event(name, b"\n".join(data) if data else None, tuple(comments), canonical)


def render_data(event: Json) -> bytes:
    """Write one event without a name."""
    return b"data: " + dumps_lenient(event) + b"\n\n"


def render_event(event: Json) -> bytes:
    """Write one event with its type as its name: SDKs drop events without a name."""
    return b"event: %b\ndata: %b\n\n" % (
        event["type"].encode("utf-8", "replace"),
        dumps_lenient(event),
    )


def is_canonical(block: bytes, event: Event, kind: str) -> bool:
    """Return whether a block has exactly an `event:` and a `data:` line: SDKs fail on other forms."""
    lines = [line for line in block.splitlines() if line]
    return (
        len(lines) == 2  # noqa: PLR2004 - the two lines
        and event.name == kind
        and lines[0].startswith(b"event:")
        and lines[1].startswith(b"data:")
    )


@dataclass(slots=True)
class Carry:
    """The pieces of an incomplete event.

    They are joined only when the event may have ended, so an event in small pieces takes linear, not
    quadratic time.
    """

    _pieces: list[bytes] = field(default_factory=list)
    _tail: bytes = b""
    """The last bytes, in which a blank line may have begun."""
    size: int = 0

    def join(self, data: bytes) -> bytes | None:
        """Return all pieces joined with `data`; if no event can end here, keep them all and return None."""
        if not self._pieces:
            return data
        self._pieces.append(data)
        self.size += len(data)
        end = self._tail + data
        # Short pieces are always joined: `[DONE]` counts at the end of its line, before any blank line.
        if self.size > SHORT_BYTES and find_event_end(end, 0) < 0:
            # A blank line has up to four bytes (CRLF CRLF), so up to three of them may be here.
            self._tail = end[-3:]
            return None
        return self.take()

    def keep(self, rest: bytes) -> None:
        if rest:
            self._pieces = [rest]
            self._tail = rest[-3:]
            self.size = len(rest)

    def take(self) -> bytes:
        joined = b"".join(self._pieces)
        self._pieces = []
        self.size = 0
        return joined


@dataclass(slots=True)
class Framer:
    """Makes whole events from a stream's bytes; an event beyond `most_bytes` passes in pieces, unread.

    `push` returns bytes that pass unread and a buffer with whole events; the buffer's rest goes to
    `keep`.
    """

    _most_bytes: int = MAX_EVENT_BYTES
    carry: Carry = field(default_factory=Carry)
    _started: bool = False
    _tail: bytes = b""
    """The last bytes that passed unread, in which the blank line may have begun."""
    mid_event: bool = False
    """An oversized event is passing."""
    oversized_events: int = 0
    """Events that passed unread so far."""

    @property
    def is_between_events(self) -> bool:
        """Return whether nothing is buffered, so the next byte begins an event."""
        return self._started and not self.mid_event and not self.carry.size

    def push(self, data: bytes) -> tuple[bytes, bytes]:
        """Take bytes; return bytes that pass unread, and a buffer that begins with an event (or is empty).

        Raises UpstreamError for a large block that is no event.
        """
        passed = b""
        # The usual case: nothing is buffered, so the data is the buffer and is not copied.
        if self._started and not self.mid_event and not self.carry.size:
            return passed, data
        if self.mid_event:
            passed, data = self._pass_oversized(data)
            if not data:
                return passed, b""
        buffer = self.carry.join(data)
        if buffer is None:
            return passed + self._check_size(), b""
        if not self._started:
            # The byte order mark may come in pieces.
            if len(buffer) < len(BOM) and BOM.startswith(buffer):
                self.carry.keep(buffer)
                return passed, b""
            self._started = True
            buffer = buffer.removeprefix(BOM)
        return passed, buffer

    def keep(self, rest: bytes) -> bytes:
        """Keep an incomplete event; return the part that passes because the event is too large to keep.

        Raises UpstreamError for a large block that is no event.
        """
        self.carry.keep(rest)
        return self._check_size()

    def take_last(self) -> bytes:
        """At a clean end, return the last block if it lacks only its blank line, else b""."""
        rest = self.carry.take()
        # A connection that breaks in the middle of an event leaves half of its JSON, which is no event.
        is_event = not self.mid_event and rest.count(b"\n") <= MAX_LINES
        payload = parse_event(rest).data if is_event else None
        if payload is None or (payload.strip() != DONE_DATA and maybe_loads(payload) is None):
            return b""
        return rest.rstrip(b"\r\n") + b"\n\n"

    def _check_size(self) -> bytes:
        if self.carry.size <= self._most_bytes:
            return b""
        block = self.carry.take()
        # A large block may be no event, such as a page of HTML: it must neither pass nor be charged.
        if not _FIELD.match(block.lstrip(b"\r\n")):
            raise UpstreamError("The upstream provider's reply is no stream of events.")
        self.mid_event = True
        self.oversized_events += 1
        passed, _ = self._pass_oversized(block)
        return passed

    def _pass_oversized(self, data: bytes) -> tuple[bytes, bytes]:
        """Divide `data` at the oversized event's end: the passing bytes and the rest."""
        tail = self._tail
        end = find_event_end(tail + data, 0)
        if end < 0:
            self._tail = (tail + data)[-3:]
            return data, b""
        end -= len(tail)
        self.mid_event = False
        self._tail = b""
        return data[:end], data[end:]
