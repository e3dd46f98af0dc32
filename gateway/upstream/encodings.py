"""Bodies that a provider, or a proxy before it, compressed although nobody asked for that."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gateway.upstream.http1 import BadResponse

STEP_BYTES: Final = 16 << 10
"""Bytes that are unpacked at a time. A small body can unpack to a thousand times its size: the receiver
counts what it gets, and stops, as with a body that came unpacked."""

_GZIP: Final = 31
_ZLIB: Final = 15
_RAW: Final = -15
_WINDOWS: Final = {b"gzip": _GZIP, b"x-gzip": _GZIP, b"deflate": _ZLIB}
"""The encodings that are read, with zlib's `wbits`."""


class Receiver(Protocol):
    """The destination of a body."""

    def receive(self, data: bytes) -> bool:
        """Take bytes. False asks for no more until `unblock` returns. May raise GatewayError."""

    async def unblock(self) -> None:
        """Return when more may come."""


@dataclass(slots=True)
class UnpackedBody:
    """A `Receiver` that unpacks a body for another. `receive(b"")` goes on with what is left of it."""

    receiver: Receiver
    encoding: bytes
    may_go_on: Callable[[], bool]
    """Returns whether the next step has time in this turn of the event loop, and is wanted."""
    _packed: bytes = b""
    _inflater: Any = None  # zlib's type has no public name
    _is_left: bool = False
    """There are packed bytes, or unpacked ones inside zlib."""
    _is_blocked: bool = False

    def receive(self, data: bytes) -> bool:
        """See `Receiver`. Raises BadResponse if the bytes are not in this encoding."""
        if data:
            self._packed += data
            self._is_left = True
        if self._inflater is None and not self._begin():
            return True
        while self._is_left:
            piece = self._unpack()
            if piece and not self.receiver.receive(piece):
                self._is_blocked = True
                return False
            if self._is_left and not self.may_go_on():
                return False
        return True

    async def unblock(self) -> None:
        if self._is_blocked:
            await self.receiver.unblock()
            self._is_blocked = False
        else:
            await asyncio.sleep(0)  # the next step has time in the next turn

    @property
    def is_whole(self) -> bool:
        """Return whether the body may end here. An empty one may, as some senders pack no empty body."""
        return not self._packed and (self._inflater is None or self._inflater.eof)

    def _begin(self) -> bool:
        """Choose what unpacks the body; return False if more bytes are needed for that."""
        window = _WINDOWS[self.encoding]
        if window == _ZLIB:
            if len(self._packed) < 2:  # noqa: PLR2004 - zlib's header
                return False
            # Some servers send `deflate` without the header that RFC 9110 §8.4.1.2 asks for.
            first, second = self._packed[:2]
            if first & 15 != zlib.DEFLATED or (first << 8 | second) % 31:
                window = _RAW
        self._inflater = zlib.decompressobj(window)
        return True

    def _unpack(self) -> bytes:
        inflater = self._inflater
        if inflater.eof:
            # A gzip body may have several members (RFC 1952 §2.2).
            if _WINDOWS[self.encoding] != _GZIP:
                raise BadResponse("bytes come after its compressed body")
            inflater = self._inflater = zlib.decompressobj(_GZIP)
        try:
            piece: bytes = inflater.decompress(self._packed, STEP_BYTES)
        except zlib.error as error:
            raise BadResponse("its body is not in the encoding that its head says") from error
        self._packed = inflater.unused_data or inflater.unconsumed_tail
        # zlib may have more even if it used all packed bytes.
        self._is_left = bool(self._packed) or (len(piece) == STEP_BYTES and not inflater.eof)
        return piece


def read_encoding(value: bytes) -> bytes | None:
    """Read a Content-Encoding: the encoding to unpack, b"" if there is none, None if it cannot be unpacked."""
    names = (one.strip() for one in value.split(b","))
    packed = [name for name in names if name not in {b"", b"identity"}]
    if not packed:
        return b""
    return packed[0] if len(packed) == 1 and packed[0] in _WINDOWS else None
