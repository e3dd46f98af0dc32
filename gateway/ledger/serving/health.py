"""Whether commits work: when a failure becomes an outage, how it is retried, and its log lines."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

log = logging.getLogger("gateway.ledger")

PROVEN_SECONDS: Final = 1.0
"""How long a commit proves that the next will work: a disk that fills up in between is found by the
requests of this time, which are then lost to their callers and cost nothing."""
BUSY_SECONDS: Final = 1
"""How long a locked database is retried before it counts as an outage: others' writes take less."""


TOLD_SECONDS: Final = 60
"""How long a state that was told is not told again, however often it comes and goes."""

MOST_TOLD: Final = 20
"""Accounts in a log line."""
LOCKED: Final = (
    "another program has locked rows of accounts, whose requests wait; all others go on: %s. Look for"
    " it in pg_stat_activity"
)


class States:
    """Log lines of what comes and goes: one for a state when it begins, and one in a minute at most.

    A state is noted again and again while it lasts. So one that lasts is told in the end.
    """

    def __init__(self, present: str) -> None:
        self._told = present
        self._told_seconds: dict[str, float] = {}

    def note(self, state: str, now_seconds: float, tell: Callable[[], None]) -> None:
        if state == self._told:
            return
        if now_seconds - self._told_seconds.get(state, -math.inf) >= TOLD_SECONDS:
            self._told, self._told_seconds[state] = state, now_seconds
            tell()


class Health:
    """One `note_` for each round of the writer; times are those of the event loop's clock."""

    def __init__(self) -> None:
        self._states = States("works")
        self._locks = States("free")
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

    def note_success(self, now_seconds: float) -> None:
        self.writable = True
        self.should_pause = False
        self._busy_since_seconds = None
        told = partial(log.warning, "the ledger can be written again")
        self._states.note("works", now_seconds, told)

    def note_failure(self, error: Exception, now_seconds: float, *, is_brief: bool = False) -> None:
        self.should_pause = not is_brief
        if not self.should_pause and self._is_brief(now_seconds):
            return
        self.writable = False
        self.doubt()
        told = partial(log.critical, "the ledger cannot be written: %s", error)
        self._states.note("fails", now_seconds, told)

    def note_hang(self, seconds: float, now_seconds: float) -> None:
        self.writable = False
        told = partial(log.error, "a commit has been under way for %s s", seconds)
        self._states.note("fails", now_seconds, told)

    def note_locks(self, accounts: Sequence[str], now_seconds: float) -> None:
        """Note the accounts that cannot be written, because of another program."""
        if accounts:
            told = partial(log.warning, LOCKED, ", ".join(accounts[:MOST_TOLD]))
            self._locks.note("locked", now_seconds, told)
        else:
            told = partial(log.warning, "no account is locked by another program any more")
            self._locks.note("free", now_seconds, told)

    def _is_brief(self, now_seconds: float) -> bool:
        """Return whether the database has been locked for a shorter time than an outage."""
        if self._busy_since_seconds is None:
            self._busy_since_seconds = now_seconds
        return now_seconds - self._busy_since_seconds < BUSY_SECONDS
