"""Views for operators: records as JSON and CSV, questions to a process."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gateway.admin import asking, fields, views
from gateway.admin.fields import name_process
from gateway.base.times import unix_ms
from gateway.config.records import Reload
from gateway.ledger.budget_records import BudgetStanding
from gateway.ledger.key_records import KeyTerms, KeyView
from gateway.ledger.opening import open_books
from gateway.ledger.records import DatabaseUrl
from gateway.ledger.sql.books import Books
from tests.ledger.kit import make_place
from tests.support.rows import each_row

# ---- records as JSON ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "told"), [(None, " a month"), ("team", " a month, team")])
def test_the_budget_of_a_key_is_shown_with_its_name(name: str | None, told: str) -> None:
    budget = BudgetStanding(1, name, "month", 10**9, 0, 7)
    key = KeyView("key_1", "alice", "sk-ru-…a1b2", KeyTerms(), 0, 0, None, None, None)
    assert views._describe_key_budget(key) == "-"
    assert views._describe_key_budget(replace(key, budget=budget)).endswith(told)


# ---- processes and their names ------------------------------------------------------------------


def test_a_process_is_named_by_its_number_and_host() -> None:
    assert fields.name_process(7, "host-a") == "process 7 on host-a"
    assert fields.name_process(7) == f"process 7 on {socket.gethostname()}"


def test_this_process_is_a_node_on_postgresql_alone() -> None:
    assert fields.name_node(Path("gateway.db")) is None
    assert fields.name_node(DatabaseUrl("postgresql:///g")) == fields.name_process(os.getpid())


# ---- the reload that a process is asked for -----------------------------------------------------

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
        (1000, True, "done", "done; a restart is needed for: server.port"),
        (1000, False, "a typo", "a typo"),
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
    now_ms = unix_ms() + 1000
    with open_books(path) as books:

        def send(pid: int, number: int) -> None:
            del number
            answer(books, now_ms, words="mine", pid=pid)
            answer(books, now_ms + 1, words="another's", pid=pid + 1)

        found = asking.ask(books, PID, send=send, wait_seconds=0)
        assert found is not None
        assert found.words.startswith("mine")
        last = books.events.find_last(asking.ACTION)
        assert last is not None
        assert (last.actor, last.address) == ("system", name_process(PID + 1))


def test_a_process_that_ended_does_not_answer(path: Path) -> None:
    def send(pid: int, number: int) -> None:
        raise ProcessLookupError(pid, number)

    with open_books(path) as books:
        assert asking.ask(books, os.getpid(), send=send, wait_seconds=0) is None
