"""Forms with a file (multipart/form-data, RFC 7578): read piece by piece, and written again for the upstream.

The form for the upstream is written anew, with our own names, order and boundary, so the provider can
read only fields that were checked here.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import orjson

from gateway.dialects.records import Json, Upload
from gateway.dialects.wire.fields import missing
from gateway.errors import BadRequest, BodyTooLarge, UnsupportedMediaType

FILE: Final = "file"
"""The name of the one part that is a file."""
MAX_PARTS: Final = 256
"""Parts of a form. OpenAI's SDKs send ten at most."""
MAX_HEAD_BYTES: Final = 8 << 10
"""Bytes of the head of a part: a name, a file's name of 255 characters, a type."""
MAX_FIELD_BYTES: Final = 4 << 20
"""Bytes of all fields together: samples of four speakers' voices, as base64, have two MiB."""
PIECE_BYTES: Final = 128 << 10
"""Bytes of a file that are sent at a time."""
_BOUNDARY: Final = re.compile(
    r'multipart/form-data\b.*;\s*boundary=(?:"([^"]+)"|([^\s;,"]+))', re.IGNORECASE
)
_BOUNDARY_CHARS: Final = 200
"""Characters of a boundary; the standard allows 70."""
_DISPOSITION: Final = re.compile(r"content-disposition:\s*form-data\s*(;.*)", re.IGNORECASE)
_PARAMETER: Final = re.compile(
    r';\s*([a-z]+\*?)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))', re.IGNORECASE
)
_ESCAPED: Final = re.compile(r'\\(["\\])')
_TYPE: Final = re.compile(r"content-type:\s*([\w.+-]+/[\w.+-]+(?:;[ -~]*)?)\s*", re.IGNORECASE)
_CODED: Final = re.compile(
    r"content-transfer-encoding:(?!\s*(?:7bit|8bit|binary)\s*$)", re.IGNORECASE
)
_NAME: Final = re.compile(r"[A-Za-z0-9_.\[\]-]{1,128}")
"""The name of a field. A provider might read other names as a field that was checked."""
_TYPED: Final = "content-type"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(slots=True)
class _Part:
    name: str
    file_name: str | None
    """None for a field."""
    content_type: str


class FormReader:
    """Reads a form without I/O. Its methods raise BadRequest and BodyTooLarge."""

    __slots__ = (
        "_buffer", "_delimiter", "_ended", "_field", "_field_bytes", "_is_head", "_part", "_parts",
        "content_type", "fields", "file_name",
    )  # fmt: skip

    def __init__(self, content_type: str) -> None:
        """Begin a form with this Content-Type. Raises UnsupportedMediaType."""
        found = _BOUNDARY.match(content_type.strip())
        boundary = "" if found is None else found[1] or found[2]
        if not 0 < len(boundary) <= _BOUNDARY_CHARS:
            raise UnsupportedMediaType(
                "Send the body as a form, with 'Content-Type: multipart/form-data; boundary=...'."
            )
        self._delimiter = b"\r\n--" + boundary.encode("utf-8", "surrogateescape")
        self._buffer = b"\r\n"  # no line end precedes the first delimiter
        self._is_head = False
        self._part: _Part | None = None
        self._field: list[bytes] = []
        self._field_bytes = self._parts = 0
        self._ended = False
        self.fields: dict[str, str | list[str]] = {}
        """The fields except the file, by name. A repeated field, or one ending in `[]`, has an array."""
        self.file_name = ""
        self.content_type = ""
        """The file's name and type; "" until its head was read."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the body; return the file's bytes among them."""
        self._buffer += data
        file: list[bytes] = []
        while not self._ended and (self._read_head() if self._is_head else self._read_part(file)):
            pass
        if self._ended:
            self._buffer = b""  # bytes after the end are ignored
        return b"".join(file)

    def close(self) -> None:
        """Note that the body is over."""
        if not self._ended:
            raise BadRequest("The form in the request body ends before its last boundary.")
        if not self.file_name:
            raise missing(FILE)

    def _read_part(self, file: list[bytes]) -> bool:
        """Read content up to a boundary; return whether it was found."""
        buffer, delimiter = self._buffer, self._delimiter
        at = buffer.find(delimiter)
        if at < 0:
            # A boundary may have begun in the last bytes.
            at = max(len(buffer) - len(delimiter) + 1, 0)
            self._take(buffer[:at], file)
            self._buffer = buffer[at:]
            return False
        behind = at + len(delimiter)
        if len(buffer) < behind + 2:
            return False
        self._take(buffer[:at], file)
        self._end_part()
        self._ended = buffer.startswith(b"--", behind)
        if not self._ended and not buffer.startswith(b"\r\n", behind):
            raise _malformed("a boundary is followed by something else")
        self._buffer = buffer[behind:]  # with the end of its line, where the next head begins
        self._is_head = True
        return True

    def _take(self, content: bytes, file: list[bytes]) -> None:
        part = self._part
        if not content or (part is None and not content.strip()):
            return
        if part is None:
            raise _malformed("it does not begin with its boundary")
        if part.file_name is not None:
            file.append(content)
            return
        self._field_bytes += len(content)
        if self._field_bytes > MAX_FIELD_BYTES:
            raise BodyTooLarge(f"The form's fields are larger than {MAX_FIELD_BYTES >> 20} MiB.")
        self._field.append(content)

    def _end_part(self) -> None:
        part = self._part
        if part is None or part.file_name is not None:
            return
        try:
            value = b"".join(self._field).decode()
        except UnicodeDecodeError as error:
            raise _malformed(f"'{part.name}' is not UTF-8") from error
        self._field = []
        before = self.fields.get(part.name)
        if before is None and not part.name.endswith("[]"):
            self.fields[part.name] = value
        elif isinstance(before, list):
            before.append(value)
        else:
            self.fields[part.name] = [value] if before is None else [before, value]

    def _read_head(self) -> bool:
        """Read the head of a part; return whether it is whole."""
        end = self._buffer.find(b"\r\n\r\n")
        if end > MAX_HEAD_BYTES or (end < 0 and len(self._buffer) > MAX_HEAD_BYTES):
            raise _malformed("a part has too large a head")
        if end < 0:
            return False
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise _malformed(f"it has more than {MAX_PARTS} parts")
        self._part = part = _read_part_head(self._buffer[:end])
        if part.file_name is not None:
            if self.file_name:
                raise BadRequest("The form has more than one file.", param=FILE)
            self.file_name, self.content_type = part.file_name, part.content_type
        self._buffer = self._buffer[end + 4 :]
        self._is_head = False
        return True


def _read_part_head(head: bytes) -> _Part:
    told = _read_lines(head)
    name, file_name = told.get("name", ""), told.get("filename")
    if "filename*" in told:  # charset'language'text (RFC 8187)
        file_name = _CONTROL.sub("", unquote(told["filename*"].rpartition("'")[2]))
    if not _NAME.fullmatch(name):
        raise _malformed("a part has no name, or one that no field has")
    if (name == FILE) != bool(file_name):
        raise BadRequest(
            f"'{FILE}' has to be a file with a name, whose ending tells its format, and no other part"
            " of the form may be one.",
            param=name,
            code="invalid_type",
        )
    return _Part(name, file_name or None, told.get(_TYPED, "application/octet-stream"))


def _read_lines(head: bytes) -> dict[str, str]:
    """Read the parameters of a part, and its type."""
    try:
        lines = head.decode().split("\r\n")
    except UnicodeDecodeError as error:
        raise _malformed("a part's head is not UTF-8") from error
    told: dict[str, str] = {}
    for line in lines:
        if _CONTROL.search(line):
            raise _malformed("a part's head has a control character")
        if found := _DISPOSITION.fullmatch(line):
            for key, quoted, plain in _PARAMETER.findall(found[1]):
                told.setdefault(key.lower(), _ESCAPED.sub(r"\1", quoted) or plain.strip())
        elif found := _TYPE.fullmatch(line):
            told[_TYPED] = found[1]
        elif _CODED.match(line):
            raise _malformed("a part is encoded; send it as it is")
    return told


def _malformed(what: str) -> BadRequest:
    return BadRequest(f"We could not read the form in your request: {what}.")


class Form:
    """A request of an upstream as a form, which can be sent any number of times."""

    __slots__ = ("_begin", "_end", "content_type", "fields", "upload")

    def __init__(self, data: bytes, upload: Upload) -> None:
        """`data`: the fields as JSON, each a text or an array of texts. The file comes last."""
        fields: Json = orjson.loads(data)
        # Random per request: a caller who knew it could end the file and add fields.
        boundary = secrets.token_hex(16)
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, told in fields.items()
            for value in (told if isinstance(told, list) else [told])
        ]
        # Escaped as httpx and browsers do.
        file_name = upload.name.replace("\\", "\\\\").replace('"', "%22")
        parts.append(
            f'--{boundary}\r\nContent-Disposition: form-data; name="{FILE}";'
            f' filename="{file_name}"\r\nContent-Type: {upload.content_type}\r\n\r\n'
        )
        self._begin = "".join(parts).encode()
        self._end = f"\r\n--{boundary}--\r\n".encode()
        self.content_type = f"multipart/form-data; boundary={boundary}"
        self.fields = fields
        self.upload = upload

    def __len__(self) -> int:
        return len(self._begin) + self.upload.size + len(self._end)

    async def read_pieces(self) -> AsyncIterator[bytes]:
        """Read the body from its beginning; only a piece of the file is in memory."""
        yield self._begin
        at = 0
        while at < self.upload.size:
            piece = await self.upload.read(at, PIECE_BYTES)
            at += len(piece)
            yield piece
        yield self._end


Body = bytes | Form
"""The body of an upstream's request."""
