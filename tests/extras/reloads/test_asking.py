"""The reload that a process is asked for."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

import pytest

from gateway.admin.fields import name_process
from gateway.base.times import HOUR_MS, unix_ms
from gateway.config.records import Reload
from gateway.extras.reloads import asking
from gateway.ledger.opening import open_books
from gateway.ledger.sql.books import Books
from tests.ledger.kit import make_place
from tests.support.rows import each_row

PID: Final = 7


def answer(
    books: Books, at_ms: int, *, ok: bool = True, words: str = "done", pid: int = PID
) -> None:
    restart_for = ("server.port",) if ok else ()
    asking.note(books, Reload(at_ms, ok, words, restart_for), "gateway.toml", pid)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_place(tmp_path).path


@each_row(
    ("later_ms", "ok", "words", "found"),
    [
        (HOUR_MS, True, "done", "done; a restart is needed for: server.port"),
        (HOUR_MS, False, "a typo", "a typo"),
        (HOUR_MS, False, "no file /\udcff", "no file /\\udcff"),
        (-1, True, "done", None),  # it began before, and may have read the file as it was
        (None, True, "", None),
    ],
)
def test_a_process_answers_what_it_is_asked(
    tmp_path: Path, later_ms: int | None, ok: bool, words: str, found: str | None
) -> None:
    asked: list[tuple[int, int]] = []
    at_ms = unix_ms() + (later_ms or 0)
    with open_books(make_place(tmp_path).path) as books:

        def send(pid: int, number: int) -> None:
            asked.append((pid, number))
            if later_ms is not None:
                answer(books, at_ms, ok=ok, words=words)

        told = asking.ask(books, PID, send=send, wait_seconds=0.1)
    assert asked == [(PID, signal.SIGHUP)]
    assert told == (None if found is None else asking.Answer(at_ms, ok, found))


def test_the_answer_is_that_of_the_process_that_was_asked(path: Path) -> None:
    """Another one that serves from the same ledger answers, too, and later."""
    now_ms = unix_ms() + HOUR_MS
    with open_books(path) as books:

        def send(pid: int, number: int) -> None:
            del number
            answer(books, now_ms, words="mine", pid=pid)
            answer(books, now_ms + 1, words="another's", pid=pid + 1)

        found = asking.ask(books, PID, send=send, wait_seconds=0)
        assert found is not None
        assert found.words.startswith("mine")
        last = books.find_last_event(asking.ACTION)
        assert last is not None
        assert (last.actor, last.address) == ("system", name_process(PID + 1))


def test_a_process_that_ended_does_not_answer(path: Path) -> None:
    def send(pid: int, number: int) -> None:
        raise ProcessLookupError(pid, number)

    with open_books(path) as books:
        assert asking.ask(books, os.getpid(), send=send, wait_seconds=0) is None
