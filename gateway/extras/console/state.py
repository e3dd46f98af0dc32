"""State that all console requests share: threads, limits, lag and the last audit.

One thread runs functions on the books, one after the other. They have to be short: long lists are
read in pages, so that others need not wait and the write-ahead log can be truncated between two of
them. If another process keeps the database locked, a function fails about a second after it was
submitted. The time it waited in the queue counts, so a queue of them does not wait a second each.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, TypeVar

from gateway.base.times import unix_ms
from gateway.base.turns import measure_loop_lag
from gateway.extras.signins.door import Door
from gateway.extras.signins.throttle import Tries
from gateway.ledger.opening import open_books
from gateway.ledger.records import Actor, AuditReport, Location
from gateway.ledger.sql.books import Books

T = TypeVar("T")

LOCK_WAIT_MS: Final = 1000
"""Milliseconds that a function may wait for the lock, its time in the queue included: somebody waits for the
page."""
MIN_LOCK_WAIT_MS: Final = 100
"""The least a function may wait for the lock: the server's own commits hold it for a few ms."""


class BooksThread:
    """One worker thread with its own connection to the books, opened on first use."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._books: Books | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="console-books")

    async def run(self, actor: Actor, function: Callable[[Books], T]) -> T:
        """Run `function` in the thread, as `actor`, and return its result.

        Raises:
            LedgerError: the database is locked, unreadable or full.
            Exception: whatever the function raises.
        """
        loop = asyncio.get_running_loop()
        submitted = time.monotonic()
        return await loop.run_in_executor(self._thread, self._call, actor, submitted, function)

    async def close(self) -> None:
        """Wait for the functions that were submitted, then close the books."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._close_books)
        self._thread.shutdown()  # does not block: closing the books was its last function

    def _call(self, actor: Actor, submitted: float, function: Callable[[Books], T]) -> T:
        if self._books is None:  # in this thread, as SQLite's connections are of one thread
            self._books = open_books(self._location)
        queued_ms = round((time.monotonic() - submitted) * 1000)
        self._books.wait_for_others(max(LOCK_WAIT_MS - queued_ms, MIN_LOCK_WAIT_MS))
        self._books.actor = actor
        return function(self._books)

    def _close_books(self) -> None:
        if self._books is not None:
            self._books.close()


TICK_SECONDS: Final = 0.5
"""How often the event loop's lag is measured. The measuring itself must cost nothing."""
LAG_WINDOW_SECONDS: Final = 60.0
"""The page Health shows the worst lag of this time: long enough that an operator sees it."""


@dataclass(frozen=True, slots=True)
class FinishedAudit:
    """A full audit that this process ran to its end."""

    at_ms: int
    report: AuditReport


class ProcessState:
    """Counters of the process since its start.

    It is created after the ledger was opened, which audits the entries since the last checkpoint.
    """

    def __init__(self, tick_seconds: float = TICK_SECONDS) -> None:
        self.started_ms = unix_ms()
        self._started = time.monotonic()
        self._tick_seconds = tick_seconds
        self._lags: deque[tuple[float, float]] = deque()
        self.last_audit: FinishedAudit | None = None
        self.is_auditing = False

    @property
    def uptime_seconds(self) -> int:
        return int(time.monotonic() - self._started)

    @property
    def loop_lag_ms(self) -> float | None:
        """The longest delay of the event loop in the last minute; None before the first sample."""
        worst = max((lag for _, lag in self._lags), default=None)
        return None if worst is None else round(worst * 1000, 1)

    async def measure_loop_lag(self) -> None:
        """Measure how late the event loop is, until cancelled."""
        await measure_loop_lag(self._note_lag, self._tick_seconds)

    def _note_lag(self, seconds: float) -> None:
        now = time.monotonic()
        self._lags.append((now, seconds))
        while self._lags[0][0] < now - LAG_WINDOW_SECONDS:
            self._lags.popleft()


TRIES_SECONDS: Final = 3600
"""Seconds in which tries and changes are counted: their limits are per hour."""
MAX_CHANGES: Final = 600
"""Changes per holder and hour, ten a minute: each leaves rows that are never deleted."""

MAX_TOKEN_CHANGES: Final = 6000
"""Changes per token and hour, a hundred a minute: two thousand sales of account, key and credit."""


@dataclass(frozen=True, slots=True)
class ConsoleState:
    """State that all console requests share, for as long as the application runs."""

    books_thread: BooksThread
    process: ProcessState = field(default_factory=ProcessState)
    door: Door = field(default_factory=Door)
    changes: Tries = field(default_factory=lambda: Tries(MAX_CHANGES, TRIES_SECONDS))
    """Changes by holders, and sessions opened by a trusted proxy's header. They are limited as each leaves
    rows that are never deleted."""
    token_changes: Tries = field(default_factory=lambda: Tries(MAX_TOKEN_CHANGES, TRIES_SECONDS))
    added_tries: dict[str, Tries] = field(default_factory=dict)

    def find_tries(self, what: str, most: int, seconds: int) -> Tries:
        """Return the counter of the tries that another extra limits; `what` is its name."""
        return self.added_tries.setdefault(what, Tries(most, seconds))
