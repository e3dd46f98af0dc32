"""When the writer wakes, and when it looks for what other processes committed."""

from __future__ import annotations

import asyncio
from typing import Final

from gateway.ledger.sqlite.serving.queue import end_wait

LINGER_SECONDS: Final = 0.005
"""How long an admission waits for its settlement: a fast reply is then one commit."""

POLL_SECONDS: Final = 0.25
"""Commits of other processes are seen within this time and that of a batch."""

RETRY_SECONDS: Final = 0.2
"""The pause after a batch that failed, so that a full disk is not tried in a busy loop."""


class Alarm:
    """Ends the writer's sleep: at once, soon, or when the next poll is due."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()
        self._soon: asyncio.TimerHandle | None = None
        self.ring = self._rung.set
        """End the sleep, or the next one, at once."""

    def ring_soon(self) -> None:
        """End the sleep after `LINGER_SECONDS`, counted from the first call."""
        if self._soon is None:
            self._soon = self._loop.call_later(LINGER_SECONDS, self.ring)

    async def sleep(self, *, is_retry: bool) -> None:
        """Wait for the alarm or the next poll; before a retry, for `RETRY_SECONDS`."""
        if is_retry:
            await asyncio.sleep(RETRY_SECONDS)
        elif not self._rung.is_set():
            timer = self._loop.call_later(POLL_SECONDS, self.ring)
            await self._rung.wait()
            timer.cancel()
        self._rung.clear()
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None


class Polls:
    """The time of the last poll, and who waits for one that begins after they asked."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun_seconds = self._loop.time()
        self._asked: list[asyncio.Future[None]] = []
        self._under_way: list[asyncio.Future[None]] = []
        """Waits that the poll under way ends; if it fails, the next one does."""

    def ask(self) -> asyncio.Future[None]:
        """Return a wait for the next poll that begins. Waits of one time share a poll."""
        wait: asyncio.Future[None] = self._loop.create_future()
        self._asked.append(wait)
        return wait

    def begin_if_due(self, *, is_idle: bool) -> bool:
        """Return whether to poll in this round: it is idle, somebody asked, or it is time."""
        now_seconds = self._loop.time()
        is_time = now_seconds - self._begun_seconds >= POLL_SECONDS
        if not (is_idle or is_time or self._asked):
            return False
        self._begun_seconds = now_seconds
        self._under_way += self._asked
        self._asked.clear()
        return True

    def finish(self) -> None:
        """End the waits for the poll, whose result is in memory."""
        for wait in self._under_way:
            end_wait(wait)
        self._under_way.clear()

    def close(self) -> None:
        """End all waits: there will be no poll any more."""
        self._under_way += self._asked
        self.finish()
