"""Whether commits work: when a failure becomes an outage, how it is retried, and its log lines."""

from __future__ import annotations

import logging
import math
from typing import Final

log = logging.getLogger("gateway.ledger")

PROVEN_SECONDS: Final = 1.0
"""How long a commit proves that the next will work: a disk that fills up in between is found by the
requests of this time, which are then lost to their callers and cost nothing."""
BUSY_SECONDS: Final = 1
"""How long a locked database is retried before it counts as an outage: others' writes take less."""


class Health:
    """One `note_` for each round of the writer; times are those of the event loop's clock."""

    def __init__(self) -> None:
        self.writable = True
        self.should_pause = False
        """False where the next try may work at once: another program's lock is short."""
        self._busy_since_seconds: float | None = None
        self._worked_seconds = -math.inf

    def is_proven(self, now_seconds: float) -> bool:
        """Return whether commits work, as far as anybody can know without one."""
        return self.writable and now_seconds - self._worked_seconds < PROVEN_SECONDS

    def note_commit(self, now_seconds: float) -> None:
        self._worked_seconds = now_seconds

    def doubt(self) -> None:
        """Take no earlier commit for a proof: the database refused what should have worked."""
        self._worked_seconds = -math.inf

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
        self.doubt()

    def note_hang(self, seconds: float) -> None:
        if self.writable:
            log.error("a commit has been under way for %s s", seconds)
        self.writable = False

    def _is_brief(self, now_seconds: float) -> bool:
        """Return whether the database has been locked for a shorter time than an outage."""
        if self._busy_since_seconds is None:
            self._busy_since_seconds = now_seconds
        return now_seconds - self._busy_since_seconds < BUSY_SECONDS
