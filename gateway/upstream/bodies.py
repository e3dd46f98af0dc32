"""Receivers of bodies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from gateway.errors import UpstreamError

MAX_REPLY_BYTES: Final = 64 << 20
"""Bytes of the largest JSON reply: it is held back whole until it is charged."""


class Receiver(Protocol):
    """The destination of a body."""

    def receive(self, data: bytes) -> bool:
        """Take bytes. False asks to wait for `ready` before more come. May raise GatewayError."""

    async def ready(self) -> None:
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

    async def ready(self) -> None:
        return

    def take(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
