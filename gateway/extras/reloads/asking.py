"""Requests to the serving process for a reload.

The request is SIGHUP. The answer is an event, so it is kept, however the request was made. It names the
process, because others may serve from the same ledger, each with a gateway.toml of its own.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from gateway.admin.fields import name_process
from gateway.base.times import unix_ms
from gateway.config.records import Reload
from gateway.ledger.records import SYSTEM, Actor
from gateway.ledger.sql.books import Books

ACTION: Final = "config.reload"
WAIT_SECONDS: Final = 10.0
"""How long an answer is waited for: a reload takes milliseconds."""
POLL_SECONDS: Final = 0.02
"""Seconds between two looks for it: short enough that a command seems to answer at once."""
_TAKEN: Final = "ok; "


@dataclass(frozen=True, slots=True)
class Answer:
    """The process's answer to a reload."""

    at_ms: int
    ok: bool
    words: str


def note(books: Books, reload: Reload, file: str, pid: int) -> None:
    """Write the process's answer down: what changed, or why nothing did."""
    books.actor = Actor(SYSTEM.name, name_process(pid))
    detail = f"{_TAKEN}{reload.words}" if reload.ok else reload.words
    if reload.restart_for:
        detail += f"; a restart is needed for: {', '.join(reload.restart_for)}"
    # A path in a variable may have bytes that are no UTF-8.
    detail = detail.encode("utf-8", "backslashreplace").decode()
    books.note(ACTION, account=None, target=file, detail=detail, at_ms=reload.at_ms)


def ask(
    books: Books,
    pid: int,
    *,
    send: Callable[[int, int], None] = os.kill,
    wait_seconds: float = WAIT_SECONDS,
) -> Answer | None:
    """Ask the process to read its file again; return None if it does not answer in time.

    The end of a reload that began before does not count: the file may have changed since.
    Raises PermissionError if the process is another user's.
    """
    asked_ms = unix_ms()
    with suppress(ProcessLookupError):  # it ended a moment ago
        send(pid, signal.SIGHUP)
    answerer = name_process(pid)
    until = time.monotonic() + wait_seconds
    while True:
        event = books.find_last_event(ACTION, answerer)
        if event is not None and event.at_ms >= asked_ms:
            words = event.detail.removeprefix(_TAKEN)
            return Answer(event.at_ms, words != event.detail, words)
        if time.monotonic() >= until:
            return None
        time.sleep(POLL_SECONDS)
