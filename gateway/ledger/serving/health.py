"""Whether commits work: when a failure becomes an outage, how it is retried, and its log lines."""

from __future__ import annotations

import logging
from typing import Final

log = logging.getLogger("gateway.ledger")

BUSY_SECONDS: Final = 1
"""How long a locked database is retried before it counts as an outage: others' writes take less."""


class Health:
    """One `note_` for each round of the writer; times are those of the event loop's clock."""

    def __init__(self) -> None:
        self.writable = True
        self.should_pause = False
        """False where the next try may work at once: another program's lock is short."""
        self._busy_since_seconds: float | None = None

    def note_success(self) -> None:
        if not self.writable:
            log.warning("the ledger can be written again")
        self.writable = True
        self.should_pause = False
        self._busy_since_seconds = None

    def note_failure(self, error: Exception, now_seconds: float, *, is_brief: bool = False) -> None:
        self.should_pause = not is_brief
        if not self.should_pause and self._is_brief(now_seconds):
            return
        if self.writable:
            log.critical("the ledger cannot be written: %s", error)
        self.writable = False

    def note_hang(self, seconds: float) -> None:
        if self.writable:
            log.error("a commit has been under way for %s s", seconds)
        self.writable = False

    def _is_brief(self, now_seconds: float) -> bool:
        """Return whether the database has been locked for a shorter time than an outage."""
        if self._busy_since_seconds is None:
            self._busy_since_seconds = now_seconds
        return now_seconds - self._busy_since_seconds < BUSY_SECONDS
