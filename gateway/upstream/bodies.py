"""Receivers of bodies: one that keeps them whole, one that checks what a body without a type begins with."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.dialects.wire.collected import MAX_REPLY_BYTES
from gateway.errors import UpstreamError

_TYPES: Final = (b"text/event-stream", b"application/json")
_BEGINNINGS: Final = (b"{", b"data:", b"event:", b"id:", b"retry:", b":")
"""A JSON object, the fields of an event, a comment."""
_BOM: Final = b"\xef\xbb\xbf"


class Receiver(Protocol):
    """The destination of a body."""

    def receive(self, data: bytes) -> bool:
        """Take bytes. False asks to wait for `unblock` before more come. May raise GatewayError."""

    async def unblock(self) -> None:
        """Return when more may come."""


@dataclass(slots=True)
class CollectedBody:
    """A `Receiver` that keeps a body of at most `max_bytes`."""

    max_bytes: int = MAX_REPLY_BYTES
    _pieces: list[bytes] = field(default_factory=list)
    _size: int = 0

    def receive(self, data: bytes) -> bool:
        self._size += len(data)
        if self._size > self.max_bytes:
            raise UpstreamError(
                "The upstream provider's reply is too large.", cause="200, but too large"
            )
        self._pieces.append(data)
        return True

    async def unblock(self) -> None:
        return

    def take(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


@dataclass(slots=True)
class CheckedBody:
    """A `Receiver` before another one, which gets a body only if it begins like a reply."""

    receiver: Receiver
    _held: bytes | None = b""
    """The first bytes, while they are too few to tell; None once it is told."""

    def receive(self, data: bytes) -> bool:
        if self._held is None:
            return self.receiver.receive(data)
        data = (self._held + data).lstrip()
        begins = begins_reply(data)
        if begins is False:
            raise _no_reply()
        self._held = data if begins is None else None
        return begins is None or self.receiver.receive(data)

    async def unblock(self) -> None:
        await self.receiver.unblock()

    def end(self) -> None:
        """Note that the body is over. Raises UpstreamError if it never began."""
        if self._held is not None:
            raise _no_reply()


@functools.lru_cache(maxsize=64)
def is_reply_type(content_type: bytes) -> bool:
    """Return whether a Content-Type says that the body is events or JSON."""
    kind = content_type.partition(b";")[0].strip().lower()
    return kind in _TYPES or kind.endswith(b"+json")


def begins_reply(data: bytes) -> bool | None:
    """Return whether a body begins like an event or a JSON object; None if that is too early to tell."""
    text = data.removeprefix(_BOM).lstrip()
    if text.startswith(_BEGINNINGS):
        return True
    is_early = any(one.startswith(text) for one in (*_BEGINNINGS, _BOM))
    return None if is_early else False


def _no_reply() -> UpstreamError:
    return UpstreamError(
        "The upstream provider's reply is neither events nor JSON.",
        cause="200, but neither events nor JSON",
    )
