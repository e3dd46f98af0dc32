"""Reading an HTTP/1.1 response: bytes in, body bytes out. No I/O.

A provider's answer is taken strictly where a mistake could be mistaken for another answer (status
line, lengths, chunk sizes) and generously where it cannot (reason, unknown headers, extensions).
Nothing of its head is passed on, so nothing in it can reach a caller.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

MAX_LINE_BYTES: Final = 8190
MAX_HEADERS: Final = 128
MAX_EXTENSION_BYTES: Final = 16 << 10
"""Of a chunk-size line: extensions are read over."""

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n\x00]*)?")
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)[ \t]*:([^\r\n\x00]*)")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n\x00]*)?")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_NO_BODY: Final = frozenset({204, 304})


class BadResponse(Exception):
    """What came is not an HTTP/1.1 response, or not a whole one."""

    body = b""
    """What of the body was fed with the mistake and stands before it."""


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers; names in lower case, values as they came."""

    status: int
    headers: dict[bytes, bytes]
    is_persistent: bool
    """The connection may serve again once the body was read."""

    def get(self, name: bytes) -> str:
        """A header as text, "" when it is absent."""
        return self.headers.get(name, b"").decode("latin-1")


class ResponseReader:
    """One response on one connection."""

    __slots__ = (
        "_buffer",
        "_chunked",
        "_in_trailers",
        "_left",
        "_trailers",
        "_until_close",
        "done",
        "head",
    )

    def __init__(self) -> None:
        self.head: Head | None = None
        self.done = False
        """The body is whole; what is fed after it is an answer to nothing."""
        self._buffer = b""
        self._left = 0
        """Bytes missing of the body or of the current chunk with its line end."""
        self._chunked = False
        self._in_trailers = False
        self._trailers = 0
        self._until_close = False

    @property
    def leftover(self) -> bool:
        """Whether bytes came behind the response: the connection must not serve again."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> bytes:
        """What of the body came with `data`. Raises BadResponse."""
        if self.head is None:
            data = self._read_head(self._buffer + data)
            if self.head is None:
                return b""
        if self.done:
            self._buffer += data
            return b""
        if self._chunked:
            return self._read_chunks(data)
        if self._until_close:
            return data
        body, self._buffer = data[: self._left], data[self._left :]
        self._left -= len(body)
        self.done = self._left == 0
        return body

    def feed_eof(self) -> None:
        """The connection ended. Raises BadResponse when something is missing."""
        if self._until_close and self.head is not None:
            self.done = True
        if not self.done:
            raise BadResponse("the connection ended within the response")

    def _read_head(self, data: bytes) -> bytes:
        """Set `head` once it is whole; what came behind it."""
        while True:
            end, size = _find_head_end(data)
            if end < 0:
                _check_partial_head(data)
                self._buffer = data
                return b""
            head = parse_head(data[:end])
            data = data[end + size :]
            if head.status == 101 or head.status >= 200:  # noqa: PLR2004 - interim answers are skipped
                break
        self._buffer = b""
        self._choose_framing(head)
        self.head = head
        return data

    def _choose_framing(self, head: Head) -> None:
        encoding = head.headers.get(b"transfer-encoding")
        length = head.headers.get(b"content-length")
        if head.status in _NO_BODY or head.status < 200:  # noqa: PLR2004
            self.done = True
        elif encoding is not None:
            if length is not None or encoding.lower() != b"chunked":
                raise BadResponse("its framing is ambiguous")
            self._chunked = True
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise BadResponse("its Content-Length is no number")
            self._left = int(length)
            self.done = self._left == 0
        else:
            self._until_close = True

    def _read_chunks(self, data: bytes) -> bytes:
        if self._buffer:
            data = self._buffer + data
        pieces: list[bytes] = []
        try:
            position = self._scan_chunks(data, pieces)
        except BadResponse as error:
            error.body = b"".join(pieces)
            raise
        self._buffer = data[position:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _scan_chunks(self, data: bytes, pieces: list[bytes]) -> int:
        """Take the chunks that are there; the index of the first byte not used."""
        position = 0
        while position < len(data) and not self.done:
            if self._left > 0:
                position = self._read_chunk_data(data, position, pieces)
                continue
            end = data.find(b"\n", position)
            if end < 0:
                if len(data) - position > MAX_EXTENSION_BYTES:
                    raise BadResponse("a chunk-size line is too long")
                break
            self._read_line(data[position:end].removesuffix(b"\r"))
            position = end + 1
        return position

    def _read_chunk_data(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        """Take what is there of the current chunk; `_left` counts its CRLF too."""
        content = self._left - 2
        if content > 0:
            piece = data[position : position + content]
            pieces.append(piece)
            self._left -= len(piece)
            position += len(piece)
        while self._left in {1, 2} and position < len(data):
            if data[position] != b"\r\n"[2 - self._left]:
                raise BadResponse("a chunk is longer than it said")
            self._left -= 1
            position += 1
        return position

    def _read_line(self, line: bytes) -> None:
        """A chunk-size line, or one of the trailers."""
        if self._in_trailers:
            self._trailers += 1
            if not line:
                self.done = True
            elif self._trailers > MAX_HEADERS or not _HEADER.fullmatch(line):
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
    """Status line and headers, without the blank line. Raises BadResponse."""
    lines = data.replace(b"\r\n", b"\n").split(b"\n")
    match = _STATUS_LINE.fullmatch(lines[0])
    if match is None or len(lines[0]) > MAX_LINE_BYTES:
        raise BadResponse("its status line is malformed")
    if len(lines) > MAX_HEADERS + 1:
        raise BadResponse("it has too many headers")
    headers: dict[bytes, bytes] = {}
    for line in lines[1:]:
        if line[:1] in (b" ", b"\t") and headers:
            continue  # a folded value: none of those that matter is ever folded
        header = _HEADER.fullmatch(line)
        if header is None or len(line) > MAX_LINE_BYTES:
            raise BadResponse("a header is malformed")
        name = header[1].lower()
        if name in headers and name in {b"content-length", b"transfer-encoding"}:
            raise BadResponse("its framing is ambiguous")
        headers[name] = header[2].strip(b" \t")
    connection = headers.get(b"connection", b"").lower()
    is_persistent = b"close" not in connection if match[1] == b"1" else b"keep-alive" in connection
    return Head(int(match[2]), headers, is_persistent)


def _find_head_end(data: bytes) -> tuple[int, int]:
    """Where the head ends and how long its blank line is; -1 when it is not whole."""
    crlf, lf = data.find(b"\r\n\r\n"), data.find(b"\n\n")
    if lf >= 0 and (crlf < 0 or lf < crlf):
        return lf, 2
    return crlf, 4


def _check_partial_head(data: bytes) -> None:
    """What will never become a head is refused before it is whole: garbage need not end."""
    too_long = (
        len(data) > MAX_HEADERS * MAX_LINE_BYTES or len(data.rpartition(b"\n")[2]) > MAX_LINE_BYTES
    )
    if too_long or not (data.startswith(b"HTTP/1.") or b"HTTP/1.".startswith(data)):
        raise BadResponse("its head is malformed")
