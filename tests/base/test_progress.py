"""How far a long operation is: its words, and the line of a terminal."""

from __future__ import annotations

import io
import threading

import pytest

from gateway.base import progress
from gateway.base.progress import follow, ignore, show_progress


def test_a_loop_tells_now_and_then() -> None:
    told: list[tuple[object, ...]] = []
    rows = follow(range(2500), lambda *words: told.append(words), "reading", 2500, "rows")
    assert list(rows) == list(range(2500))
    assert told == [("reading", done, 2500, "rows") for done in (0, 1000, 2000)]


class Terminal(io.StringIO):
    """A terminal that says when it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.drawn.set()


def test_a_terminal_has_one_line_that_goes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0)
    monkeypatch.setenv("COLUMNS", "20")
    terminal = Terminal()
    with show_progress(terminal) as tell:
        tell("working on it all the time")
        assert terminal.drawn.wait(10)
    first, *_, last = terminal.getvalue().split("\r\x1b[K")[1:]
    assert last == ""
    assert len(first) < 20
    assert "\n" not in terminal.getvalue()


def test_a_short_operation_and_a_pipe_show_nothing() -> None:
    terminal, pipe = Terminal(), io.StringIO()
    with show_progress(terminal) as tell:
        tell("short")
    with show_progress(pipe) as tell:
        assert tell is ignore
    assert terminal.getvalue() == pipe.getvalue() == ""
