"""The end of a connection whose caller may still be sending.

The kernel answers bytes that come to a closed connection by a reset, which takes away a reply that was not
read yet. Many clients send a whole body before they read. So a refusal is followed by the end of the
gateway's side alone, and what still comes is thrown away for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from gateway.base.deadlines import limit_seconds
from gateway.base.turns import LINGERING, find_turns

LINGER_BYTES: Final = 64 << 20
"""Bytes that are thrown away at most, unless bodies may be larger than half of it: many clients read a
refusal only after they have sent the whole body, but one that sends without end must not be read for ever."""
LINGER_SECONDS: Final = 30.0
"""Seconds for which bytes are thrown away at most: a caller that sends slowly would otherwise keep its
connection for as long as it likes."""


class Lingering:
    """Reads what nobody wants until the caller closes, pauses for too long or has sent too much."""

    __slots__ = ("_gone", "_left", "_limit", "_transport")

    def __init__(self, transport: asyncio.Transport, most: int, idle_seconds: float) -> None:
        self._transport = transport
        self._left = most
        self._limit = limit_seconds(idle_seconds, LINGER_SECONDS)
        self._gone = asyncio.Event()
        self._wait_for_turn()

    def drop(self, size: int) -> None:
        """Count bytes that were read."""
        self._left -= size
        self._wait_for_turn()
        self._limit.renew()

    def _wait_for_turn(self) -> None:
        """Resume reading in a turn that has time; never once the byte limit is used up."""
        if not self._transport.is_closing():
            self._transport.pause_reading()
            if self._left > 0:
                find_turns().defer(LINGERING, self._transport.resume_reading)

    async def wait(self) -> None:
        """Tell the caller that nothing follows the reply; return when the connection may be closed."""
        with contextlib.suppress(OSError):  # the caller has reset it
            if not self._transport.is_closing():
                self._transport.write_eof()
        with contextlib.suppress(TimeoutError):
            async with self._limit:
                await self._gone.wait()

    def end(self) -> None:
        """Note that the connection is lost."""
        self._gone.set()
