"""One timer for all streams in flight: deadlines, silence, callers that left.

A timer per read would cost more than the read. Instead every stream notes when it is due, and a
single tick asks each of them; a deadline of seconds does not mind a tenth.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from gateway.errors import GatewayError

TICK_SECONDS: Final = 0.1


class Watched(Protocol):
    def tick(self, now: float) -> None:
        """Look at the clock (`loop.time()`). Must not raise."""

    def stop(self, error: GatewayError) -> None:
        """End with `error`: the gateway waits no longer."""


class Watch:
    """The streams in flight and their timer, which runs only while there are any."""

    __slots__ = ("_handle", "_watched")

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._handle: asyncio.TimerHandle | None = None

    def add(self, watched: Watched) -> None:
        self._watched.add(watched)
        if self._handle is None:
            self._arm()

    def remove(self, watched: Watched) -> None:
        self._watched.discard(watched)

    def stop_all(self, error: GatewayError) -> None:
        """End all that is under way."""
        for watched in tuple(self._watched):
            watched.stop(error)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        self._handle = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        self._handle = None
        now = asyncio.get_running_loop().time()
        for watched in tuple(self._watched):
            watched.tick(now)
        if self._watched:
            self._arm()
