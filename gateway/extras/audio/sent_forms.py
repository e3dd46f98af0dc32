"""Writes a form anew for the upstream, and sends it piece by piece.

The gateway writes names, order and boundary, so the provider can read only fields that `forms` checked.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Final, Protocol

import orjson

from gateway.dialects.wire.records import Json
from gateway.extras.audio.forms import FILE

PIECE_BYTES: Final = 128 << 10
"""Bytes of a file that are sent at a time: only these are in memory."""


class File(Protocol):
    """The file of a form, in memory or on disk."""

    name: str
    content_type: str
    size: int
    head: bytes
    """The file's first bytes."""

    async def read(self, at: int, most: int) -> bytes:
        """Return up to `most` bytes from position `at`; at least one byte before the file's end."""


class Form:
    """A request of an upstream as a form, which can be sent any number of times."""

    __slots__ = ("_begin", "_end", "content_type", "fields", "upload")

    def __init__(self, data: bytes, upload: File) -> None:
        """`data`: the fields as JSON, each a text or an array of texts. The file comes last."""
        fields: Json = orjson.loads(data)
        # The boundary is random: a caller who knew it could end the file early and add fields.
        boundary = secrets.token_hex(16)
        parts = [
            f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
            for name, told in fields.items()
            for value in (told if isinstance(told, list) else [told])
        ]
        # The name is escaped as httpx and browsers do.
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

    def read_json(self) -> Json:
        return {**self.fields, FILE: self.upload}

    async def read_pieces(self) -> AsyncIterator[bytes]:
        """Read the body from its beginning; only a piece of the file is in memory."""
        # Fields are sent in pieces, too: one may have some MiB.
        for at in range(0, len(self._begin), PIECE_BYTES):
            yield self._begin[at : at + PIECE_BYTES]
        at = 0
        while at < self.upload.size:
            piece = await self.upload.read(at, PIECE_BYTES)
            at += len(piece)
            yield piece
        yield self._end
