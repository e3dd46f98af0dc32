"""The end of a connection whose caller may still be sending.

The kernel answers bytes that come to a closed connection by a reset, which takes away a reply that was not
read yet. Many clients send a whole body before they read. So a refusal is followed by the end of the
gateway's side alone, and what still comes is thrown away for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from gateway.tasks import find_turns

LINGER_BYTES: Final = 64 << 20
"""Bytes that are thrown away at most, unless bodies may be larger than half of it."""
LINGER_SECONDS: Final = 30.0
"""How long bytes are thrown away at most."""
LINGERING: Final = "lingering"
"""The owner of all turns in which bytes are thrown away."""


class Lingering:
    """Reads what nobody wants until the caller closes, pauses for too long or has sent too much."""

    __slots__ = ("_deadline", "_gone", "_idle_seconds", "_left", "_transport", "_until")

    def __init__(self, transport: asyncio.Transport, most: int, idle_seconds: float) -> None:
        self._transport = transport
        self._left = most
        self._idle_seconds = idle_seconds
        self._until = asyncio.get_running_loop().time() + LINGER_SECONDS
        self._gone = asyncio.Event()
        self._deadline: asyncio.Timeout | None = None
        transport.resume_reading()

    def drop(self, size: int) -> None:
        """Count bytes that were read."""
        turns = find_turns()
        self._left -= size
        if self._left <= 0:
            self._transport.pause_reading()
        elif not turns.may_begin(LINGERING):
            self._transport.pause_reading()
            turns.wait(LINGERING, self._transport.resume_reading)
        if self._deadline is not None and not self._deadline.expired():
            now = asyncio.get_running_loop().time()
            self._deadline.reschedule(min(now + self._idle_seconds, self._until))

    async def wait(self) -> None:
        """Tell the caller that nothing follows the reply; return when the connection may be closed."""
        with contextlib.suppress(OSError):  # the caller has reset it
            if not self._transport.is_closing():
                self._transport.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._idle_seconds) as self._deadline:
                await self._gone.wait()

    def end(self) -> None:
        """Note that the connection is lost."""
        self._gone.set()
