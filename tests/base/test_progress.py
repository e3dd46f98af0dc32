"""How far a long operation is: its words, and the line of a terminal."""

from __future__ import annotations

import io
import threading

import pytest

from gateway.base import progress
from gateway.base.progress import Steps, follow, ignore, show_progress
from tests.support.rows import each_row


@each_row(
    ("seconds", "told", "words"),
    [
        (3, ("checking the file",), "checking the file, for 3 s so far"),
        (4, ("a", 0, 4_000_000, "rows"), "a: 0 of 4,000,000 rows"),
        (
            12,
            ("a", 1_000_000, 4_000_000, "rows"),
            "a: 1,000,000 of 4,000,000 rows, about 36 s left",
        ),
        (90, ("a", 25, 50, "keys"), "a: 25 of 50 keys, about 2 min left"),
        (9000, ("a", 1, 2, "rows"), "a: 1 of 2 rows, about 2 h left"),
        (10, ("a", 9, 8, "rows"), "a: 8 of 8 rows"),
        (10, ("a", 250_000_000, 1_500_000_000, "bytes"), "a: 250 of 1,500 MB, about 50 s left"),
    ],
)
def test_words_say_what_is_done_and_left(
    seconds: int, told: tuple[str, int, int, str], words: str
) -> None:
    now = [100.0]
    steps = Steps(lambda: now[0])
    steps("another")
    now[0] = 1000.0
    steps(told[0])
    now[0] += seconds
    steps(*told)
    assert steps.describe() == words
    now[0] += 1_000_000
    assert "left" not in steps.describe(), "it goes down while nothing is told"


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
