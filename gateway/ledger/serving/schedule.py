"""When the writer's rounds begin, and when they look for what other processes committed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from gateway.ledger.serving.queue import end_wait

LINGER_SECONDS: Final = 0.005
"""How long an admission waits for its settlement, at least: a fast reply is then one commit. After a
kill the audit lists nothing that is younger."""

SHARE_SECONDS: Final = 0.005
"""How long those who ask for a poll wait for others who ask."""

POLL_SECONDS: Final = 0.25
"""Commits of other processes are seen within this time and that of a batch."""

ASIDE_SECONDS: Final = 0.5
"""The pause before the steps of a locked account are tried again. A try takes up to a tenth of it, in
which all others wait."""

RETRY_SECONDS: Final = 0.2
"""The pause after a batch that failed, so that a full disk is not tried in a busy loop."""


class Rounds:
    """Begins one round after the other: at once, soon, or after a pause."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._soon: asyncio.TimerHandle | None = None
        self._is_wanted = False
        self._is_busy = False
        """True from the decision to begin a round until its end, and until that of a pause."""

    def hurry(self) -> None:
        """Begin a round at once, or once the one under way is done: it takes all that came since."""
        if self._is_busy:
            self._is_wanted = True
        else:
            self._is_busy = True
            self._start()

    def hurry_within(self, seconds: float) -> None:
        """Hurry after this time, counted from the first call."""
        if self._soon is None:
            self._soon = self._loop.call_later(seconds, self._hurry_late)

    def end_one(self, *, pauses: bool) -> None:
        """Note the end of a round, and begin the next one if somebody waits for it."""
        if pauses:
            self._loop.call_later(RETRY_SECONDS, self._start)
        elif self._is_wanted:
            self._start()
        else:
            self._is_busy = False

    def _hurry_late(self) -> None:
        self._soon = None
        self.hurry()

    def _start(self) -> None:
        self._is_wanted = False
        self._begin()


class Polls:
    """The time of the last poll, and who waits for one that begins after they asked."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.due_seconds = self._loop.time() + POLL_SECONDS
        self._asked: list[asyncio.Future[None]] = []
        self._under_way: list[asyncio.Future[None]] = []
        """Waits that the poll under way ends; if it fails, the next one does."""

    def ask(self) -> asyncio.Future[None]:
        """Return a wait for the next poll that begins. Waits of one time share a poll."""
        wait: asyncio.Future[None] = self._loop.create_future()
        self._asked.append(wait)
        return wait

    def begin_if_due(self, now_seconds: float, *, is_idle: bool) -> bool:
        """Return whether to poll in this round: it is idle, somebody asked, or it is time."""
        if not (is_idle or now_seconds >= self.due_seconds or self._asked):
            return False
        self.due_seconds = now_seconds + POLL_SECONDS
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
