"""Replies to requests that are made once, in both databases."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

import pytest

from gateway.extras.console.replays import RepeatableRequest, ReplayBook, StoredReply
from gateway.ledger.records import Refused
from gateway.ledger.sql.books import Books
from tests.ledger.player import Clock
from tests.ledger.sql.places import BooksPlace

RACERS: Final = 20

REPEATABLE = RepeatableRequest("1", "/route", "key", b"r" * 32)


def test_a_reply_is_kept_with_its_effect_or_not_at_all(books: Books) -> None:
    def credit() -> StoredReply:
        books.entries.post("a", "credit", 5, note="")
        return StoredReply(201, b"reply")

    def fail() -> StoredReply:
        credit()
        raise Refused("no")

    with pytest.raises(Refused):
        ReplayBook(books).run_once(REPEATABLE, fail)
    assert books.accounts.read("a").balance_nano == 1000
    assert ReplayBook(books).run_once(REPEATABLE, credit) == (StoredReply(201, b"reply"), False)
    assert ReplayBook(books).run_once(REPEATABLE, fail) == (StoredReply(201, b"reply"), True)
    assert books.accounts.read("a").balance_nano == 1005


def run_once(books: Books) -> StoredReply:
    def do() -> StoredReply:
        books.entries.post("a", "credit", 7, note="")
        return StoredReply(201, b"reply")

    kept, _ = ReplayBook(books).run_once(RepeatableRequest("1", "/route", "key", b"r" * 32), do)
    return kept


def test_what_is_repeated_at_once_is_done_once(
    books: Books, place: BooksPlace, clock: Clock
) -> None:
    start = Barrier(RACERS)

    def run(_: int) -> StoredReply:
        with place.open(clock) as own:
            start.wait()
            return run_once(own)

    with ThreadPoolExecutor(RACERS) as pool:
        assert list(pool.map(run, range(RACERS))) == [StoredReply(201, b"reply")] * RACERS
    assert books.accounts.read("a").balance_nano == 1007
