"""The question to the serving process, and the answer that counts."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

import pytest

from gateway.admin import reload
from gateway.admin.checks import name_process
from gateway.config.records import Reload
from gateway.ledger.opening import open_books
from gateway.ledger.sql.books.books import Books
from gateway.times import unix_ms
from tests.ledger.kit import make_place

PID: Final = 7


def answer(
    books: Books, at_ms: int, *, ok: bool = True, words: str = "done", pid: int = PID
) -> None:
    restart_for = ("server.port",) if ok else ()
    reload.note(books, Reload(at_ms, ok, words, restart_for), "gateway.toml", pid)


def ask(path: Path, *at_ms: int, ok: bool = True, words: str = "done") -> reload.Answer | None:
    """Ask a process that answers with these times, the latest last."""
    asked: list[tuple[int, int]] = []
    with open_books(path) as books:

        def send(pid: int, number: int) -> None:
            asked.append((pid, number))
            for one in at_ms:
                answer(books, one, ok=ok, words=words)

        found = reload.ask(books, PID, send=send, wait_seconds=0.1)
    assert asked == [(PID, signal.SIGHUP)]
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_place(tmp_path).path


def test_the_answer_says_what_changed_and_what_waits(path: Path) -> None:
    now_ms = unix_ms() + 1000
    words = "done; a restart is needed for: server.port"
    assert ask(path, now_ms) == reload.Answer(now_ms, True, words)


def test_a_refusal_says_why(path: Path) -> None:
    now_ms = unix_ms() + 1000
    assert ask(path, now_ms, ok=False, words="a typo") == reload.Answer(now_ms, False, "a typo")


def test_a_reload_that_began_before_is_no_answer(path: Path) -> None:
    """It may have read the file as it was."""
    before_ms = unix_ms() - 1
    with open_books(path) as books:
        answer(books, before_ms)
    assert ask(path, before_ms) is None
    assert ask(path) is None


def test_the_answer_is_that_of_the_process_that_was_asked(path: Path) -> None:
    """Another one that serves from the same ledger answers, too, and later."""
    now_ms = unix_ms() + 1000
    with open_books(path) as books:

        def send(pid: int, number: int) -> None:
            del number
            answer(books, now_ms, words="mine", pid=pid)
            answer(books, now_ms + 1, words="another's", pid=pid + 1)

        found = reload.ask(books, PID, send=send, wait_seconds=0)
        assert found is not None
        assert found.words.startswith("mine")
        last = books.events.find_last(reload.ACTION)
        assert last is not None
        assert (last.actor, last.address) == ("system", name_process(PID + 1))


def test_a_process_that_ended_does_not_answer(path: Path) -> None:
    def send(pid: int, number: int) -> None:
        raise ProcessLookupError(pid, number)

    with open_books(path) as books:
        assert reload.ask(books, os.getpid(), send=send, wait_seconds=0) is None
