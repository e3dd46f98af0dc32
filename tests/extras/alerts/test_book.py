"""Alerts in the books of each database, their records; `books/` has sessions with them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TypeAlias

import pytest

from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.records import Hook, make_alert_id
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Connection
from tests.ledger.player import Clock
from tests.ledger.sql.places import BooksPlace

LetIn: TypeAlias = Callable[[Callable[[], object]], None]


def texts(books: Books) -> list[str]:
    return [json.loads(due.body)["text"] for due in AlertBook(books).read_due(100)]


@pytest.fixture
def other(place: BooksPlace, books: Books, clock: Clock) -> Iterator[Books]:
    """The books as another process has them open."""
    del books  # it has made the account
    with place.open(clock) as other:
        yield other


@pytest.fixture
def let_in(books: Books, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> LetIn:
    """Let another process act after the next look of these books, right before what they change."""
    own = books.changing

    def let_in(act: Callable[[], object]) -> None:
        def change() -> AbstractContextManager[Connection]:
            monkeypatch.setattr(books, "changing", own)
            act()
            clock.now_ms += 1
            return own()

        monkeypatch.setattr(books, "changing", change)

    return let_in


@pytest.mark.parametrize("is_up", [False, True])
def test_of_two_that_see_a_condition_one_tells(
    books: Books, other: Books, clock: Clock, let_in: LetIn, *, is_up: bool
) -> None:
    def look(books: Books, *, is_up: bool) -> None:
        clock.now_ms += 1
        failing, working = ({}, {"p": "up"}) if is_up else ({"p": "down"}, {})
        AlertBook(books).follow("provider_failing", failing, working, ["webhook"])

    if is_up:
        look(books, is_up=False)
    let_in(lambda: look(other, is_up=is_up))
    look(books, is_up=is_up)
    assert sorted(texts(other)) == ["down", "up"][: 1 + is_up]


def test_of_two_that_see_a_balance_fall_one_tells(
    books: Books, other: Books, clock: Clock, let_in: LetIn
) -> None:
    def look(books: Books) -> None:
        clock.now_ms += 1
        AlertBook(books).follow_balances(500, "USD", ["webhook"])

    for _ in range(2):
        books.entries.correct("a", -600, note="spent")
        let_in(lambda: look(other))
        look(books)
        assert len(texts(books)) == 1
        books.entries.post("a", "credit", 600, note="")
        let_in(lambda: look(other))
        look(books)
        for due in AlertBook(books).read_due(9):
            AlertBook(books).note_delivered(due.id)


def test_ids_differ_and_a_secret_is_not_shown() -> None:
    assert make_alert_id() != make_alert_id()
    assert "whsec_1" not in repr(Hook("https://a.example/", "whsec_1", None))
