"""Replies to requests that are made once, in both databases. `played/accounts.txt` has a hundred at once."""

from __future__ import annotations

import pytest

from gateway.extras.console.replays import RepeatableRequest, ReplayBook, StoredReply
from gateway.ledger.records import Refused
from gateway.ledger.sql.books import Books

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
