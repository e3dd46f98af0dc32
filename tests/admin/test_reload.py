"""The question to the serving process, and the answer that counts."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gateway.admin import reload
from gateway.config import Reload
from gateway.ledger import open_books
from gateway.ledger.books import Books
from gateway.times import unix_ms
from tests.ledger.kit import make_place


def answer(books: Books, at_ms: int, *, ok: bool = True, words: str = "done") -> None:
    reload.note(books, Reload(at_ms, ok, words, ("server.port",) if ok else ()), "gateway.toml")


def ask(path: Path, *at_ms: int, ok: bool = True, words: str = "done") -> reload.Answer | None:
    """Ask a process that answers with these times, the latest last."""
    asked: list[tuple[int, int]] = []
    with open_books(path) as books:

        def send(pid: int, number: int) -> None:
            asked.append((pid, number))
            for one in at_ms:
                answer(books, one, ok=ok, words=words)

        found = reload.ask(books, 7, send=send, wait_seconds=0.1)
    assert asked == [(7, signal.SIGHUP)]
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


def test_a_process_that_ended_does_not_answer(path: Path) -> None:
    def send(pid: int, number: int) -> None:
        raise ProcessLookupError(pid, number)

    with open_books(path) as books:
        assert reload.ask(books, os.getpid(), send=send, wait_seconds=0) is None
