"""Receivers of the bodies that providers send: kept whole, checked at the beginning, or unpacked in small steps.

A provider, or a proxy before it, may compress a body although nobody asked for that.
"""

from __future__ import annotations

import asyncio
import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from gateway.base.errors import UpstreamError
from gateway.dialects.exchanges import MAX_REPLY_BYTES
from gateway.dialects.wire.sse import BOM
from gateway.upstream.http1 import BadResponse

STEP_BYTES: Final = 2 << 10
"""Bytes that are unpacked at a time: some events. A small body can unpack to a thousand times its size:
the receiver counts what it gets, and stops, as with a body that came unpacked."""

_WINDOWS: Final = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
"""The encodings that are read, each with zlib's `wbits`: the largest window, and the kind of head."""
_TYPES: Final = (b"text/event-stream", b"application/json")
_BEGINNINGS: Final = (b"{", b"data:", b"event:", b"id:", b"retry:", b":")
"""A JSON object, the fields of an event, a comment."""


class Wants(Enum):
    """The next wish of a receiver."""

    MORE = "more bytes"
    ROOM = "no more bytes until `unblock` returns"
    NOTHING = "no more bytes: it has all it needs"


class Receiver(Protocol):
    """The destination of a body."""

    def receive(self, data: bytes) -> Wants:
        """Take bytes. May raise GatewayError."""

    async def unblock(self) -> None:
        """Return when more may come."""

    def end(self) -> None:
        """Note that the body came to its clean end. Raises GatewayError or BadResponse if a part is missing."""


@dataclass(slots=True)
class UnpackedBody:
    """A `Receiver` that unpacks a body for another. `receive(b"")` goes on with what is left of it."""

    receiver: Receiver
    encoding: bytes
    has_time: Callable[[], bool]
    """Returns whether the next step has time in this turn of the event loop."""
    _packed: bytes = b""
    _inflater: zlib._Decompress | None = field(init=False, default=None)
    _has_more: bool = False
    """There are packed bytes, or unpacked ones inside zlib."""
    _is_blocked: bool = False

    def receive(self, data: bytes) -> Wants:
        """See `Receiver`. Raises BadResponse if the bytes are not in this encoding."""
        if data:
            self._packed += data
            self._has_more = True
        if self._inflater is None and not self._begin():
            return Wants.MORE
        is_begun = False
        while self._has_more:
            if is_begun and not self.has_time():
                return Wants.ROOM
            is_begun = True
            piece = self._unpack()
            wants = self.receiver.receive(piece) if piece else Wants.MORE
            if wants is not Wants.MORE:
                self._is_blocked = wants is Wants.ROOM
                return wants
        return Wants.MORE

    async def unblock(self) -> None:
        if self._is_blocked:
            await self.receiver.unblock()
            self._is_blocked = False
        else:
            await asyncio.sleep(0)  # the next step has time in the next turn

    def end(self) -> None:
        # An empty body may end here, too, as some senders pack no empty body.
        if self._packed or not (self._inflater is None or self._inflater.eof):
            raise BadResponse("its compressed body is cut short")
        self.receiver.end()

    def _begin(self) -> bool:
        """Choose what unpacks the body; return False if more bytes are needed for that."""
        window = _WINDOWS[self.encoding]
        if self.encoding == b"deflate":
            if len(self._packed) < 2:  # noqa: PLR2004 - zlib's header
                return False
            # Some servers send `deflate` without the header that RFC 9110 §8.4.1.2 asks for.
            first, second = self._packed[:2]
            if first & 15 != zlib.DEFLATED or (first << 8 | second) % 31:
                window = -window
        self._inflater = zlib.decompressobj(window)
        return True

    def _unpack(self) -> bytes:
        inflater = self._inflater
        assert inflater is not None
        if inflater.eof:
            # A gzip body may have several members (RFC 1952 §2.2).
            if self.encoding == b"deflate":
                raise BadResponse("bytes come after its compressed body")
            inflater = self._inflater = zlib.decompressobj(_WINDOWS[self.encoding])
        try:
            piece = inflater.decompress(self._packed, STEP_BYTES)
        except zlib.error as error:
            raise BadResponse("its body is not in the encoding that its head says") from error
        self._packed = inflater.unused_data or inflater.unconsumed_tail
        # zlib may have more even if it used all packed bytes.
        self._has_more = bool(self._packed) or (len(piece) == STEP_BYTES and not inflater.eof)
        return piece


def read_encoding(value: bytes) -> bytes | None:
    """Read a Content-Encoding: the encoding to unpack, b"" if there is none, None if it cannot be unpacked."""
    names = (one.strip() for one in value.split(b","))
    packed = [name for name in names if name not in {b"", b"identity"}]
    if not packed:
        return b""
    return packed[0] if len(packed) == 1 and packed[0] in _WINDOWS else None


@dataclass(slots=True)
class CollectedBody:
    """A `Receiver` that keeps a body of at most `max_bytes`, or the beginning of a larger one."""

    max_bytes: int = MAX_REPLY_BYTES
    _pieces: list[bytes] = field(default_factory=list)
    _size: int = 0

    def receive(self, data: bytes) -> Wants:
        self._pieces.append(data[: self.max_bytes - self._size])
        self._size += len(data)
        # An endless reply must not fill the memory.
        if self._size > self.max_bytes:
            raise UpstreamError(
                "The upstream provider's reply is too large.", cause="200, but too large"
            )
        return Wants.MORE

    async def unblock(self) -> None:
        return

    def end(self) -> None:
        return

    def take(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


@dataclass(slots=True)
class CheckedBody:
    """A `Receiver` that passes a body on only if it begins like a reply."""

    receiver: Receiver
    _beginning: bytes | None = b""
    """The first bytes, while they are too few to decide; None once the body is accepted."""

    def receive(self, data: bytes) -> Wants:
        if self._beginning is None:
            return self.receiver.receive(data)
        data = (self._beginning + data).lstrip()
        begins = begins_reply(data)
        if begins is False:
            raise _no_reply()
        self._beginning = data if begins is None else None
        return Wants.MORE if begins is None else self.receiver.receive(data)

    async def unblock(self) -> None:
        await self.receiver.unblock()

    def end(self) -> None:
        if self._beginning is not None:  # it never began
            raise _no_reply()
        self.receiver.end()


@functools.lru_cache(maxsize=64)
def is_reply_type(content_type: bytes) -> bool:
    """Return whether a Content-Type says that the body is events or JSON."""
    kind = content_type.partition(b";")[0].strip().lower()
    return kind in _TYPES or kind.endswith(b"+json")


def begins_reply(data: bytes) -> bool | None:
    """Return whether a body begins like an event or a JSON object; None if more bytes are needed."""
    text = data.removeprefix(BOM).lstrip()
    if text.startswith(_BEGINNINGS):
        return True
    is_early = any(one.startswith(text) for one in (*_BEGINNINGS, BOM))
    return None if is_early else False


def _no_reply() -> UpstreamError:
    return UpstreamError(
        "The upstream provider's reply is neither events nor JSON.",
        cause="200, but neither events nor JSON",
    )
