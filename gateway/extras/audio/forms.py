"""Reads forms with a file (multipart/form-data, RFC 7578) piece by piece."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import orjson

from gateway.base.errors import BadRequest, BodyTooLarge, UnsupportedMediaType
from gateway.dialects.wire.fields import missing

FILE: Final = "file"
"""The name of the one part that is a file."""
MAX_PARTS: Final = 64
"""Parts of a form. OpenAI's SDKs send some twenty at most."""
MAX_HEAD_BYTES: Final = 1 << 10
"""Bytes of the head of a part: a field's name, a file's name of 255 characters and a type fit."""
MAX_HEAD_ITEMS: Final = 8
"""Lines in the head of a part, and parameters in one of them. Clients send three."""
MAX_FIELD_BYTES: Final = 3 << 20
"""Bytes of all fields together: samples of four speakers' voices, as base64, have two MiB."""
MAX_DEAR_BYTES: Final = 256 << 10
"""Bytes of all fields that are not ASCII or are escaped in JSON: these take ten times as long to process, and
a prompt has some thousand bytes."""
_BOUNDARY: Final = re.compile(
    r'multipart/form-data\b.*;\s*boundary=(?:"([^"]+)"|([^\s;,"]+))', re.IGNORECASE
)
_BOUNDARY_CHARS: Final = 200
"""Characters of a boundary; the standard allows 70."""
_DISPOSITION: Final = re.compile(r"form-data\s*(;.*)", re.IGNORECASE)
_PARAMETER: Final = re.compile(
    r';\s*([a-z]+\*?)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;"]*))', re.IGNORECASE
)
_ESCAPED: Final = re.compile(r'\\(["\\])')
_TYPE: Final = re.compile(r"[\w.+-]+/[\w.+-]+(?:;[ -~]*)?", re.ASCII)
_UNCODED: Final = frozenset({"7bit", "8bit", "binary"})
_NAME: Final = re.compile(r"[A-Za-z0-9_.\[\]-]{1,128}")
"""Matches the name of a field. A provider might read other names as a field that is checked."""
_TYPED: Final = "content-type"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_CHEAP: Final = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))


@dataclass(slots=True)
class _Part:
    name: str
    file_name: str | None
    """None for a field."""
    content_type: str


class FormReader:
    """Reads a form without I/O. Its methods raise BadRequest and BodyTooLarge."""

    __slots__ = (
        "_at", "_buffer", "_dear_bytes", "_delimiter", "_ended", "_fields", "_is_head", "_part",
        "_parts", "_value", "content_type", "field_bytes", "file_name",
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
        self._at = 0
        """The position in the buffer at which reading continues."""
        self._is_head = False
        self._part: _Part | None = None
        self._value: list[bytes] = []
        self._parts = self._dear_bytes = 0
        self._ended = False
        self._fields: dict[str, list[bytes]] = {}
        self.field_bytes = 0
        self.file_name = ""
        self.content_type = ""
        """The type of the file. It and `file_name` are "" until the head of the file was read."""

    def count_parts(self, data: bytes) -> int:
        """Return about how many parts begin in these bytes: each takes some µs to read."""
        return data.count(self._delimiter)

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the body; return the file's bytes among them."""
        self._buffer += data
        file: list[bytes] = []
        while not self._ended and (self._read_head() if self._is_head else self._read_part(file)):
            pass
        # Bytes after the end are ignored.
        self._buffer = b"" if self._ended else self._buffer[self._at :]
        self._at = 0
        return b"".join(file)

    def find_text(self, name: str) -> str | None:
        """Return the text of a field (the first, if it is repeated); None until it has arrived whole."""
        values = self._fields.get(name)
        return None if values is None else values[0].decode("utf-8", "replace")

    def dump(self) -> bytes:
        """Return the fields of a whole form as JSON: texts by name.

        A repeated field, or one ending in `[]`, has an array.
        """
        if not self._ended:
            raise BadRequest("The form in the request body ends before its last boundary.")
        texts = {name: _decode(name, some) for name, some in self._fields.items()}
        if not self.file_name:
            raise missing(FILE)
        return orjson.dumps(texts)

    def _read_part(self, file: list[bytes]) -> bool:
        """Read content up to a boundary; return whether it was found."""
        buffer, delimiter, begin = self._buffer, self._delimiter, self._at
        at = buffer.find(delimiter, begin)
        if at < 0:
            # The last bytes may be the beginning of a boundary.
            self._at = max(len(buffer) - len(delimiter) + 1, begin)
            self._take(buffer[begin : self._at], file)
            return False
        behind = at + len(delimiter)
        if len(buffer) < behind + 2:
            return False
        self._take(buffer[begin:at], file)
        self._end_part()
        self._ended = buffer.startswith(b"--", behind)
        if not self._ended and not buffer.startswith(b"\r\n", behind):
            raise _malformed("a boundary is followed by something else")
        self._at = behind  # with the end of its line, where the next head begins
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
        self.field_bytes += len(content)
        if self.field_bytes > MAX_FIELD_BYTES:
            raise BodyTooLarge(f"The form's fields are larger than {MAX_FIELD_BYTES >> 20} MiB.")
        # These are counted piece by piece: one call for all bytes would block other threads.
        self._dear_bytes += len(content.translate(None, _CHEAP))
        if self._dear_bytes > MAX_DEAR_BYTES:
            raise BodyTooLarge(
                f"The form's fields have more than {MAX_DEAR_BYTES >> 10} KiB of characters beyond"
                " ASCII, quotes, backslashes and control characters."
            )
        self._value.append(content)

    def _end_part(self) -> None:
        part = self._part
        if part is not None and part.file_name is None:
            self._fields.setdefault(part.name, []).append(b"".join(self._value))
            self._value = []

    def _read_head(self) -> bool:
        """Read the head of a part; return whether it is whole."""
        most = self._at + MAX_HEAD_BYTES + len(_END_OF_HEAD)
        end = self._buffer.find(_END_OF_HEAD, self._at, most)
        if end < 0:
            if len(self._buffer) >= most:
                raise _malformed(f"the head of a part is larger than {MAX_HEAD_BYTES >> 10} KiB")
            return False
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise _malformed(f"it has more than {MAX_PARTS} parts")
        self._part = part = _read_part_head(self._buffer[self._at : end])
        if part.file_name is not None:
            if self.file_name:
                raise BadRequest("The form has more than one file.", param=FILE)
            self.file_name, self.content_type = part.file_name, part.content_type
        self._at = end + len(_END_OF_HEAD)
        self._is_head = False
        return True


_END_OF_HEAD: Final = b"\r\n\r\n"


def _decode(name: str, values: list[bytes]) -> str | list[str]:
    try:
        texts = [value.decode() for value in values]
    except UnicodeDecodeError as error:
        raise _malformed(f"'{name}' is not UTF-8") from error
    return texts if len(texts) > 1 or name.endswith("[]") else texts[0]


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
    """Read the parameters and the type of a part from the lines of its head."""
    try:
        lines = head.decode().removeprefix("\r\n").split("\r\n", MAX_HEAD_ITEMS)
    except UnicodeDecodeError as error:
        raise _malformed("a part's head is not UTF-8") from error
    if len(lines) > MAX_HEAD_ITEMS:
        raise _malformed(f"the head of a part has more than {MAX_HEAD_ITEMS} lines")
    parameters: dict[str, str] = {}
    for line in lines:
        if _CONTROL.search(line):
            raise _malformed("a part's head has a control character")
        name, _, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if name == "content-disposition" and (found := _DISPOSITION.fullmatch(value)):
            _read_parameters(found[1], parameters)
        elif name == _TYPED and _TYPE.fullmatch(value):
            parameters[_TYPED] = value
        elif name == "content-transfer-encoding" and value.lower() not in _UNCODED:
            raise _malformed("a part is encoded; send it as it is")
    return parameters


def _read_parameters(text: str, told: dict[str, str]) -> None:
    for count, found in enumerate(_PARAMETER.finditer(text)):
        if count == MAX_HEAD_ITEMS:
            raise _malformed(f"the head of a part has more than {MAX_HEAD_ITEMS} parameters")
        key, quoted, plain = found.groups("")
        told.setdefault(key.lower(), _ESCAPED.sub(r"\1", quoted) or plain.strip())


def _malformed(what: str) -> BadRequest:
    return BadRequest(f"We could not read the form in your request: {what}.")
