"""An HTTP/1.1 response (RFC 9112) read from bytes, without I/O.

The reader is strict where an error could be mistaken for a different response (status line, lengths,
chunk sizes) and lenient where it cannot (reason phrase, unknown headers, chunk extensions). The head is
never passed on, so nothing in it can reach a caller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_LINE_BYTES: Final = 8190
"""Bytes of a header line: aiohttp's own limit, which servers keep to."""
MAX_HEAD_BYTES: Final = 64 << 10
"""Bytes of an incomplete head; providers send some KiB."""
MAX_HEADERS: Final = 128
"""Headers of a response: several times what providers send. A head without end must not fill the
memory."""
MAX_INTERIM: Final = 10
"""Interim responses (1xx) before the final one; more would only cost time."""
MAX_CHUNK_LINE_BYTES: Final = 16 << 10
"""Bytes of a chunk-size line with its extensions, which are ignored."""

_STATUS_LINE: Final = rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n\x00]*)?"
# Possessive quantifiers (`++`, `*+`): no hostile head makes the patterns backtrack.
_HEADER: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++[ \t]*+:[^\r\n\x00]*+"
_FOLDED: Final = rb"[ \t][^\n]*+"
"""A line of obsolete folding: no header that matters here is ever folded."""
_HEAD = re.compile(
    rb"%b(?:\r?\n%b(?:\r?\n%b)*+){,%d}+" % (_STATUS_LINE, _HEADER, _FOLDED, MAX_HEADERS)
)
_TRAILER = re.compile(_HEADER)
_FRAMING = re.compile(
    rb"\n(connection|content-encoding|content-length|content-type|transfer-encoding)[ \t]*:([^\r\n]*)"
)
"""The headers that framing and checks need, in lower case."""
# RFC 9112 §7.1 warns of huge sizes; fifteen digits are more than any chunk has.
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\x00]*)?")
_CHUNK_LINE = re.compile(_CHUNK_SIZE.pattern + rb"\r?\n")
_NEXT_CHUNK = re.compile(rb"\r\n([1-9A-Fa-f][0-9A-Fa-f]{0,14})\r\n")
"""The end of a chunk and the size of the next, as nearly all senders write them. The last chunk is none."""
_LENGTH = re.compile(rb"[0-9]{1,15}")
# Responses with these statuses have no body, whatever length the head states (RFC 9112 §6.3).
_NO_BODY: Final = frozenset({204, 304})


class BadResponse(Exception):
    """The bytes are not an HTTP/1.1 response, or not a whole one."""

    body = b""
    """The body bytes before the error in the same read."""


@dataclass(slots=True, eq=False, repr=False)
class Head:
    """Status and headers. Not frozen: that costs a microsecond per response."""

    status: int
    headers: dict[bytes, bytes]
    """Connection, encodings, length and type: names and values in lower case."""
    is_persistent: bool
    """The connection may be reused once the body is read."""
    _lines: bytes

    def get(self, name: bytes) -> str:
        """Return any header as text, or "" if it is absent."""
        # Looked up on demand, as only errors need headers other than those above.
        pattern = rb"\n(?i:%b)[ \t]*:([^\r\n]*)" % re.escape(name)
        values = (value.strip(b" \t") for value in re.findall(pattern, self._lines))
        return b", ".join(values).decode("latin-1")


@dataclass(slots=True, eq=False, repr=False)
class ResponseReader:
    """One response on one connection."""

    head: Head | None = None
    done: bool = False
    """The body is whole; further bytes belong to no request."""
    leftover: bytes = b""
    """Bytes that are not used yet. Behind the response, they forbid to reuse the connection."""
    _interim: int = 0
    _until_close: bool = False
    _chunked: bool = False
    _left: int = 0
    """Missing bytes of the body, or of the current chunk with its CRLF."""
    _between_chunks: bool = False
    """The next byte begins a chunk."""
    _in_trailers: bool = False
    _trailers: int = 0

    def feed(self, data: bytes) -> bytes:
        """Return the body bytes that came with `data`. Raises BadResponse."""
        if self._between_chunks:  # the hot path of streams: a read that is exactly one chunk
            line = _CHUNK_LINE.match(data)
            if line is not None:
                start = line.end()
                end = start + int(line[1], 16)
                if start < end and data[end : end + 3] == b"\r\n":
                    return data[start:end]
        if self.head is None:
            data = self._read_head(data)
            if self.head is None:
                return b""
        if self.done:
            self.leftover += data
            return b""
        if self._chunked:
            return self._read_chunks(data)
        if self._until_close:
            return data
        body, self.leftover = data[: self._left], data[self._left :]
        self._left -= len(body)
        self.done = self._left == 0
        return body

    def feed_eof(self) -> None:
        """Note that the connection ended. Raises BadResponse if the response is incomplete."""
        if self._until_close and self.head is not None:
            self.done = True
        if not self.done:
            raise BadResponse("the connection ended within the response")

    def _read_head(self, data: bytes) -> bytes:
        """Set `head` once it is whole; return the bytes after it."""
        searched = 0
        if self.leftover:
            searched = max(len(self.leftover) - 3, 0)  # the blank line may have begun there
            data = self.leftover + data
        while self._interim <= MAX_INTERIM:
            end, size = _find_head_end(data, searched)
            if end < 0:
                _check_partial_head(data)
                self.leftover = data
                return b""
            head = parse_head(data[:end])
            data, searched = data[end + size :], 0
            # 101 is final, as what follows is another protocol (RFC 9110 §15.2.2).
            if head.status == 101 or head.status >= 200:  # noqa: PLR2004 - interim answers are skipped
                self._choose_framing(head)
                self.head, self.leftover = head, b""
                return data
            self._interim += 1
        raise BadResponse("it begins with too many interim responses")

    def _choose_framing(self, head: Head) -> None:
        encoding = head.headers.get(b"transfer-encoding")
        length = head.headers.get(b"content-length")
        if head.status in _NO_BODY or head.status < 200:  # noqa: PLR2004
            self.done = True
        elif encoding is not None:
            # Two readers could frame it differently, which allows smuggled responses (RFC 9112 §6.3).
            if length is not None or encoding != b"chunked":
                raise BadResponse("its framing is ambiguous")
            self._chunked = self._between_chunks = True
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise BadResponse("its Content-Length is no number")
            self._left = int(length)
            self.done = self._left == 0
        else:
            # Without a length the body ends with the connection (RFC 9112 §6.3).
            self._until_close = True

    def _read_chunks(self, data: bytes) -> bytes:
        data = self.leftover + data
        pieces: list[bytes] = []
        try:
            position = self._scan_chunks(data, pieces)
        except BadResponse as error:
            error.body = b"".join(pieces)
            raise
        self.leftover = data[position:]
        self._between_chunks = not (self.leftover or self._left or self._in_trailers)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _scan_chunks(self, data: bytes, pieces: list[bytes]) -> int:
        """Take the chunks in `data`; return the index of the first unused byte."""
        position, size = 0, len(data)
        while position < size and not self.done:
            line = None if self._left or self._in_trailers else _CHUNK_LINE.match(data, position)
            if self._left:
                position = self._read_chunk_data(data, position, pieces)
            # A size of 0 takes the slow way below, as trailers may follow it.
            elif line is not None and int(line[1], 16):
                position = self._take_chunks(data, line, pieces)
            elif (end := data.find(b"\n", position)) >= 0:
                self._read_line(data[position:end].removesuffix(b"\r"))
                position = end + 1
            elif size - position > MAX_CHUNK_LINE_BYTES:
                raise BadResponse("a chunk-size line is too long")
            else:
                break
        return position

    def _take_chunks(self, data: bytes, line: re.Match[bytes] | None, pieces: list[bytes]) -> int:
        """Take the chunk with this size line, and those behind it; return the index after their data.

        What is missing there, the last one's CRLF or more, is left to `_read_chunk_data`.
        """
        start = end = 0
        while line is not None:
            start = line.end()
            end = start + int(line[1], 16)
            pieces.append(data[start:end])
            line = _NEXT_CHUNK.match(data, end)
        self._left = max(end - len(data), 0) + 2
        return min(end, len(data))

    def _read_chunk_data(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        """Take the available part of the current chunk; `_left` includes its CRLF."""
        content = self._left - 2
        if content > 0:
            piece = data[position : position + content]
            pieces.append(piece)
            self._left -= len(piece)
            position += len(piece)
        while self._left in {1, 2} and position < len(data):
            # Bytes beyond the size could otherwise pass for the next chunk's size.
            if data[position] != b"\r\n"[2 - self._left]:
                raise BadResponse("a chunk is longer than it said")
            self._left -= 1
            position += 1
        return position

    def _read_line(self, line: bytes) -> None:
        """Read a chunk-size line or a trailer line."""
        if self._in_trailers:
            self._trailers += 1
            if not line:
                self.done = True
            elif self._trailers > MAX_HEADERS or not _TRAILER.fullmatch(line):
                raise BadResponse("its trailers are malformed")
            return
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise BadResponse("a chunk size is no number")
        size = int(match[1], 16)
        if size:
            self._left = size + 2
        else:
            self._in_trailers = True


def parse_head(data: bytes) -> Head:
    """Parse status line and headers, without the blank line. Raises BadResponse."""
    match = _HEAD.fullmatch(data)
    if match is None:
        # The head is known to be bad; this only finds the part to name in the message.
        if not re.match(_STATUS_LINE + rb"\r?(?:\n|\Z)", data):
            raise BadResponse("its status line is malformed")
        raise BadResponse("a header is malformed, or it has too many headers")
    if len(data) > MAX_LINE_BYTES and any(
        len(line) > MAX_LINE_BYTES for line in data.replace(b"\r\n", b"\n").split(b"\n")
    ):
        raise BadResponse("a line of its head is too long")
    headers: dict[bytes, bytes] = {}
    for name, value in _FRAMING.findall(data.lower()):
        if name not in headers:
            headers[name] = value.strip(b" \t")
        elif name in {b"content-length", b"transfer-encoding"}:
            raise BadResponse("its framing is ambiguous")
        else:
            headers[name] += b", " + value.strip(b" \t")  # RFC 9110 §5.3
    # HTTP/1.1 keeps a connection unless told otherwise, HTTP/1.0 closes it (RFC 9112 §9.3).
    is_persistent = match[1] == b"1"
    if b"connection" in headers:
        options = {one.strip() for one in headers[b"connection"].split(b",")}
        is_persistent = b"close" not in options if is_persistent else b"keep-alive" in options
    return Head(int(match[2]), headers, is_persistent, data)


def _find_head_end(data: bytes, start: int) -> tuple[int, int]:
    """Return the index of the head's end and the length of its blank line; -1 when it is not whole."""
    crlf, lf = data.find(b"\r\n\r\n", start), data.find(b"\n\n", start)
    # A recipient may accept a bare LF as the end of a line (RFC 9112 §2.2).
    if lf >= 0 and (crlf < 0 or lf < crlf):
        return lf, 2
    return crlf, 4


def _check_partial_head(data: bytes) -> None:
    """Refuse early bytes that can never become a head: garbage may contain no blank line."""
    line_bytes = len(data) - data.rfind(b"\n") - 1
    too_long = len(data) > MAX_HEAD_BYTES or line_bytes > MAX_LINE_BYTES
    if too_long or not (data.startswith(b"HTTP/1.") or b"HTTP/1.".startswith(data)):
        raise BadResponse("its head is malformed")
