"""One-time codes in the books: a key is proposed, confirmed, used up and removed."""

from __future__ import annotations

import pytest

from gateway.ledger.records import Conflict, NotFound
from gateway.ledger.signin_records import TotpView
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.places import AnyBooks

KEY, OTHER = b"k" * 20, b"o" * 20
DIGESTS = [b"1" * 32, b"2" * 32]


def test_a_key_is_asked_for_once_it_is_confirmed(books: AnyBooks) -> None:
    account = books.accounts.read("a")
    assert books.totp.read(account.id) is None
    books.totp.propose(account, OTHER)
    books.totp.propose(account, KEY)
    assert books.totp.read(account.id) == TotpView(KEY, 0, None, 0)
    assert not books.totp.use_step(account.id, 7), "it is not confirmed"
    with pytest.raises(Conflict):
        books.totp.confirm(account, OTHER, 7, DIGESTS)
    books.totp.confirm(account, KEY, 7, DIGESTS)
    assert books.totp.read(account.id) == TotpView(KEY, 7, NOW_MS, 2)
    with pytest.raises(Conflict):
        books.totp.confirm(account, KEY, 8, [])
    with pytest.raises(Conflict):
        books.totp.propose(account, OTHER)
    assert [event.detail for event in books.events.read_page("account.totp", None, 5)] == ["set up"]


def test_what_was_used_is_used_up(books: AnyBooks) -> None:
    account = books.accounts.read("a")
    books.totp.propose(account, KEY)
    books.totp.confirm(account, KEY, 7, DIGESTS)
    assert [books.totp.use_step(account.id, step) for step in (7, 9, 9, 8, 10)] == [
        *(False, True, False, False, True)
    ]
    assert [books.totp.use_recovery_code(account, one) for one in (DIGESTS[0], DIGESTS[0])] == [
        *(True, False)
    ]
    assert books.totp.read(account.id) == TotpView(KEY, 10, NOW_MS, 1)


def test_a_removal_leaves_nothing(books: AnyBooks) -> None:
    account = books.accounts.read("a")
    books.totp.propose(account, KEY)
    books.totp.confirm(account, KEY, 7, DIGESTS)
    books.totp.remove("a")
    assert books.totp.read(account.id) is None
    assert not books.totp.use_recovery_code(account, DIGESTS[0])
    for name in ("a", "nobody"):
        with pytest.raises(NotFound):
            books.totp.remove(name)


def test_events_of_an_action_are_read_on(books: AnyBooks) -> None:
    for detail in ("one", "two", "three"):
        books.events.append("test", target="t", detail=detail, at_ms=NOW_MS)
        books.events.append("other", target="t", detail=detail, at_ms=NOW_MS)
    found = books.events.read_after("test", 0, NOW_MS)
    assert [event.detail for event in found] == ["one", "two", "three"]
    assert books.events.read_after("test", found[1].id, NOW_MS) == found[2:]
    assert books.events.read_after("test", 0, NOW_MS + 1) == []
