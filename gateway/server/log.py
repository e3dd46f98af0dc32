"""The log on stderr, written by a thread of its own: a reader that stalls delays nothing else.

Lines wait in a queue of bounded size. What finds it full, or cannot be written, is counted, and the
log says so as soon as it can be written again.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import threading
from typing import Final

log = logging.getLogger("gateway.log")

QUEUE_CHARS: Final = 4 << 20
"""Characters that wait, some 16,000 lines: a minute of a busy gateway."""
FLUSH_SECONDS: Final = 2.0
"""How long the end of the process waits for a reader."""
FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


class LogWriter(logging.Handler):
    """Takes records of `logging` and whole lines, and writes both in order."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._queue: list[str] = []
        self._chars = 0
        """The length of the queue and of what is being written."""
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
        with self._changed:
            if self._chars + len(lines) > QUEUE_CHARS or self._closing:
                self._lost += lines.count("\n")
            elif lines:
                self._chars += len(lines)
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
            lines, lost = self._take()
            if not lines and not lost:
                return
            text = lines + self._describe_loss(lost) if lost else lines
            works = _write(self._descriptor, text.encode(errors="backslashreplace"))
            with self._changed:
                self._works = works
                self._chars -= len(lines)
                self._lost += -lost if works else lines.count("\n")

    def _take(self) -> tuple[str, int]:
        """Wait for lines; return them and how many were lost behind them. Nothing is the end."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._queue or self._closing or (self._lost and self._works)
            )
            lines = "".join(self._queue)
            self._queue.clear()
            return lines, self._lost if lines or self._works else 0

    def _describe_loss(self, lost: int) -> str:
        text = "the log could not be written in time: %d lines are lost"
        record = log.makeRecord(log.name, logging.WARNING, "", 0, text, (lost,), None)
        return self.format(record) + "\n"


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
