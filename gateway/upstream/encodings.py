"""Bodies that a provider, or a proxy before it, compressed although nobody asked for that."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.upstream.http1 import BadResponse, Head

STEP_BYTES: Final = 2 << 10
"""Bytes that are unpacked at a time: some events. A small body can unpack to a thousand times its size:
the receiver counts what it gets, and stops, as with a body that came unpacked."""

_WINDOWS: Final = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
"""The encodings that are read, each with zlib's `wbits`: the largest window, and the kind of head."""


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
    _inflater: zlib._Decompress | None = field(init=False, default=None)
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
        is_begun = False
        while self._is_left:
            if is_begun and not self.may_go_on():
                return False
            is_begun = True
            piece = self._unpack()
            if piece and not self.receiver.receive(piece):
                self._is_blocked = True
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
        self._is_left = bool(self._packed) or (len(piece) == STEP_BYTES and not inflater.eof)
        return piece


def read_encoding(value: bytes) -> bytes | None:
    """Read a Content-Encoding: the encoding to unpack, b"" if there is none, None if it cannot be unpacked."""
    names = (one.strip() for one in value.split(b","))
    packed = [name for name in names if name not in {b"", b"identity"}]
    if not packed:
        return b""
    return packed[0] if len(packed) == 1 and packed[0] in _WINDOWS else None


def unpack(head: Head, receiver: Receiver, may_go_on: Callable[[], bool]) -> UnpackedBody | None:
    """Return what unpacks a body for its receiver; None if the body goes there as it is."""
    encoding = read_encoding(head.headers[b"content-encoding"])
    return UnpackedBody(receiver, encoding, may_go_on) if encoding else None
