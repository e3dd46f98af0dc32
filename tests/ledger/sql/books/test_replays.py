"""Replies are kept: a request that is sent again has no second effect."""

from __future__ import annotations

import pytest

from gateway.ledger.records import OtherRequest, Refused, RepeatableRequest, StoredReply
from tests.ledger.sql.books.places import AnyBooks

REPEATABLE = RepeatableRequest("1", "/route", "key", b"r" * 32)


def test_a_reply_is_kept_with_its_effect_or_not_at_all(books: AnyBooks) -> None:
    def credit() -> StoredReply:
        books.entries.post("a", "credit", 5, note="")
        return StoredReply(201, b"reply")

    def fail() -> StoredReply:
        credit()
        raise Refused("no")

    with pytest.raises(Refused):
        books.replays.run_once(REPEATABLE, fail)
    assert books.accounts.read("a").balance_nano == 1000
    assert books.replays.run_once(REPEATABLE, credit) == (StoredReply(201, b"reply"), False)
    assert books.replays.run_once(REPEATABLE, fail) == (StoredReply(201, b"reply"), True)
    assert books.accounts.read("a").balance_nano == 1005


@pytest.mark.parametrize(
    ("account_id", "route", "key"), [(2, "/route", "key"), (1, "/other", "key"), (1, "/route", "k")]
)
def test_an_idempotency_key_is_of_one_account_and_route(
    books: AnyBooks, account_id: int, route: str, key: str
) -> None:
    books.accounts.create("b", credit_nano=0, operator=False)
    books.replays.run_once(REPEATABLE, lambda: StoredReply(200, b"first"))
    other = RepeatableRequest(str(account_id), route, key, b"r" * 32)
    assert books.replays.run_once(other, lambda: StoredReply(200, b"second"))[1] is False
    with pytest.raises(OtherRequest):
        books.replays.run_once(
            RepeatableRequest("1", "/route", "key", b"o" * 32), lambda: StoredReply(200, b"")
        )
