"""The progress of long operations, on a terminal or in the log; log lines for states that come and go."""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, Protocol, TextIO, TypeVar

QUIET_SECONDS: Final = 2.0
"""Seconds: an operation that ends before shows nothing, as nobody could read it."""
DRAW_SECONDS: Final = 0.25
"""Seconds between two drawings of the line: it seems to move, and drawing costs next to nothing."""
ROWS_BETWEEN: Final = 1000
"""Rows between two reports of a loop over rows, so that reports cost little beside the rows."""
_MEGABYTE: Final = 1_000_000
"""Bytes of the unit in which the size of a file is told."""
_CLEAR: Final = "\r\x1b[K"
"""Goes to the beginning of a terminal's line and empties it."""
_LEFT: Final = ((5400, 3600, "h"), (90, 60, "min"), (0, 1, "s"))
"""Units of a remaining time: from how many seconds on each is used, its seconds, its name."""

Row = TypeVar("Row")


class Progress(Protocol):
    """Takes the step under way and how much of it is done; `unit` is "bytes", or what is counted."""

    def __call__(self, step: str, done: int = 0, total: int = 0, unit: str = "", /) -> object: ...


def ignore(step: str, done: int = 0, total: int = 0, unit: str = "", /) -> None:
    """Ignore progress that nobody watches. Callers that are given this need not count a total."""


def follow(
    rows: Iterable[Row],
    progress: Progress,
    step: str,
    total: int,
    unit: str,
    *,
    between: int = ROWS_BETWEEN,
) -> Iterator[Row]:
    """Yield rows, and report how many there were, once in `between` rows."""
    for number, row in enumerate(rows):
        if number % between == 0:
            progress(step, number, total, unit)
        yield row


class Steps:
    """Keeps the latest progress, reported on any thread, and describes it on another one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told = ("", 0, 0, "")
        self._began = self._told_at = clock()

    def __call__(self, step: str, done: int = 0, total: int = 0, unit: str = "", /) -> None:
        now = self._clock()
        if step != self._told[0]:
            self._began = now
        if done != self._told[1]:
            self._told_at = now
        self._told = (step, done, total, unit)

    def describe(self) -> str:
        """Return `step: 1,200,000 of 4,000,000 rows, about 12 s left`; without a total, how long it took."""
        step, done, total, unit = self._told
        now = self._clock()
        if not total:
            return f"{step}, for {now - self._began:.0f} s so far"
        done = min(done, total)
        if unit == "bytes":
            figures = f"{done / _MEGABYTE:,.0f} of {total / _MEGABYTE:,.0f} MB"
        else:
            figures = f"{done:,} of {total:,} {unit}"
        if not done:
            return f"{step}: {figures}"
        # It counts down between reports, such as during a long SQL statement.
        left = (self._told_at - self._began) * (total - done) / done - (now - self._told_at)
        return f"{step}: {figures}" + (f", about {_describe_left(left)} left" if left > 0 else "")


def _describe_left(seconds: float) -> str:
    size, unit = next((size, unit) for least, size, unit in _LEFT if seconds >= least)
    return f"{seconds / size:.0f} {unit}"


@contextmanager
def show_progress(stream: TextIO) -> Iterator[Progress]:
    """Rewrite one line of a terminal after the first seconds, and remove it at the end.

    A thread draws, so the work costs no more than the telling, and a long statement of SQL is shown, too.
    Nothing is written to a file or pipe.
    """
    if not stream.isatty():
        yield ignore
        return
    steps, ended = Steps(), threading.Event()
    thread = threading.Thread(target=_draw, args=(stream, steps, ended), name="progress")
    thread.start()
    try:
        yield steps
    finally:
        ended.set()
        thread.join()


def _draw(stream: TextIO, steps: Steps, ended: threading.Event) -> None:
    if ended.wait(QUIET_SECONDS):
        return
    with suppress(OSError):  # the terminal was closed
        while True:
            line = steps.describe()[: shutil.get_terminal_size().columns - 1]
            stream.write(_CLEAR + line)
            stream.flush()
            if ended.wait(DRAW_SECONDS):
                break
        stream.write(_CLEAR)
        stream.flush()


REPEAT_SECONDS: Final = 60
"""Seconds for which a logged state is not logged again: one that comes and goes would fill the log."""


class States:
    """Log lines for states that come and go: one when a state begins, and one in a minute at most.

    A state is noted repeatedly while it lasts, so a lasting state is always logged in the end.
    """

    def __init__(self, present: str) -> None:
        self.logged = present
        self._logged_seconds: dict[str, float] = {}

    def note(
        self, state: str, now_seconds: float, tell: Callable[..., object], *words: object
    ) -> None:
        """Call `tell` with the words if it is time to."""
        if state == self.logged:
            return
        # A later note logs a state suppressed here, if it lasts until then.
        if now_seconds - self._logged_seconds.get(state, -math.inf) >= REPEAT_SECONDS:
            self.logged, self._logged_seconds[state] = state, now_seconds
            tell(*words)
