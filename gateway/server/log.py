"""The log on stderr, written by a thread of its own: a reader that stalls delays nothing else.

Lines wait in a queue of bounded size; the thread also formats most of them. Lines for which it is full, or
that cannot be written, are counted, and the log says how many as soon as it can be written again. If stderr
is /dev/null, no line is made.
"""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

log = logging.getLogger("gateway.log")

QUEUE_CHARS: Final = 4 << 20
"""Characters that wait, some 16,000 lines: a minute of a busy gateway."""
LINE_CHARS: Final = 256
"""Characters counted in the queue for a line that is still to be made: about as many as it will have."""
FLUSH_SECONDS: Final = 2.0
"""Seconds for which the end of the process waits for a reader of its log: one that hangs must not
prevent it."""
FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


_Lines = tuple[str | Callable[[], str], int, int]
"""Whole lines, or a function that makes them; their number; the characters they count for."""


class LogWriter(logging.Handler):
    """Takes records of `logging` and whole lines, and writes both in order."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._is_read = not _is_null(descriptor)
        self._queue: list[_Lines] = []
        self._chars = 0
        """The length of the queue, including lines being written."""
        self._lost = 0
        self._works = True
        self._closing = False
        self._changed = threading.Condition()
        # A daemon: the process may end while it waits for a reader. It writes to the descriptor,
        # because the lock of a file object that it never lets go would abort the interpreter.
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        self.write(self.format(record) + "\n")

    def write(self, lines: str) -> None:
        """Queue whole lines, without waiting."""
        self._add((lines, lines.count("\n"), len(lines)))

    def write_later(self, make: Callable[[], str], count: int) -> None:
        """Queue so many lines that are still to be made; the thread makes them."""
        self._add((make, count, count * LINE_CHARS))

    def _add(self, lines: _Lines) -> None:
        _, count, chars = lines
        with self._changed:
            if self._chars + chars > QUEUE_CHARS or self._closing:
                self._lost += count
            elif chars and self._is_read:
                self._chars += chars
                self._queue.append(lines)
                self._changed.notify_all()

    def close(self) -> None:
        """Wait until everything is written, at most `FLUSH_SECONDS`. The rest is lost."""
        with self._changed:
            is_closed, self._closing = self._closing, True
            self._changed.notify_all()
        if not is_closed:  # `logging` closes all handlers when the interpreter exits
            self._thread.join(FLUSH_SECONDS)
        super().close()

    def _run(self) -> None:
        while True:
            queue, lost = self._take()
            if not queue and not lost:
                return
            for lines, count, chars in queue:
                works = self._put(lines if isinstance(lines, str) else self._make(lines, count))
                self._note(works, chars, 0 if works else count)
            if lost:
                works = self._put(self._describe("could not be written in time", lost))
                self._note(works, 0, -lost if works else 0)

    def _take(self) -> tuple[list[_Lines], int]:
        """Wait for lines; return them and how many were lost after them. No line and no loss is the end."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._queue or self._closing or (self._lost and self._works)
            )
            queue, self._queue = self._queue, []
            # If writing failed, the losses are reported once, with the next lines.
            return queue, self._lost if queue or self._works else 0

    def _make(self, make: Callable[[], str], count: int) -> str:
        try:
            return make()
        except Exception as error:  # noqa: BLE001 - a fault in one line must not end the log
            return self._describe(f"could not be formatted ({type(error).__name__})", count)

    def _put(self, text: str) -> bool:
        # A name may have lone surrogates, which UTF-8 cannot write.
        return _write(self._descriptor, text.encode(errors="backslashreplace"))

    def _note(self, works: bool, chars: int, lost: int) -> None:
        with self._changed:
            self._works = works
            self._chars -= chars
            self._lost += lost

    def _describe(self, cause: str, lost: int) -> str:
        text = f"the log {cause}: %d lines are lost"
        record = log.makeRecord(log.name, logging.WARNING, "", 0, text, (lost,), None)
        return self.format(record) + "\n"


def _is_null(descriptor: int) -> bool:
    """Return whether nobody can read the log, as the file is /dev/null."""
    status = os.fstat(descriptor)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev


def _write(descriptor: int, data: bytes) -> bool:
    """Write everything, however long that takes; return False if it cannot be written."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:  # another program made the file non-blocking
            select.select((), (descriptor,), ())
        except OSError:
            return False
    return True


def set_up_logging() -> LogWriter:
    """Send all records to stderr and return its writer, to be closed last of all."""
    # A process without stderr must not write to the descriptor: another file may have its number.
    descriptor = os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno()
    writer = LogWriter(descriptor)
    logging.basicConfig(handlers=[writer], level=logging.INFO, format=FORMAT)
    # aiohttp logs requests that it cannot parse, and these may contain a key.
    logging.getLogger("aiohttp").setLevel(logging.CRITICAL)
    return writer
