"""One-time codes are used up; tokens have a name at a time and are revoked for good."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.ledger.records import Conflict, NotFound, StoredSecret
from gateway.ledger.signin_records import TokenTerms, TokenView, TotpView
from gateway.ledger.sql.books.credentials import USED_EVERY_MS
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks, BooksPlace

APP_KEY, OTHER = b"k" * 20, b"o" * 20
RECOVERY = [b"1" * 32, b"2" * 32]


def test_a_key_is_asked_for_once_it_is_confirmed(books: AnyBooks) -> None:
    account = books.accounts.read("a")
    assert books.totp.read(account.id) is None
    books.totp.propose(account, OTHER)
    books.totp.propose(account, APP_KEY)
    assert books.totp.read(account.id) == TotpView(APP_KEY, 0, None, 0)
    assert not books.totp.use_step(account.id, 7), "it is not confirmed"
    with pytest.raises(Conflict):
        books.totp.confirm(account, OTHER, 7, RECOVERY)
    books.totp.confirm(account, APP_KEY, 7, RECOVERY)
    assert books.totp.read(account.id) == TotpView(APP_KEY, 7, NOW_MS, 2)
    with pytest.raises(Conflict):
        books.totp.confirm(account, APP_KEY, 8, [])
    with pytest.raises(Conflict):
        books.totp.propose(account, OTHER)
    assert [event.detail for event in books.events.read_page("account.totp", None, 5)] == ["set up"]


def test_what_was_used_is_used_up(books: AnyBooks) -> None:
    account = books.accounts.read("a")
    books.totp.propose(account, APP_KEY)
    books.totp.confirm(account, APP_KEY, 7, RECOVERY)
    assert [books.totp.use_step(account.id, step) for step in (7, 9, 9, 8, 10)] == [
        *(False, True, False, False, True)
    ]
    assert [books.totp.use_recovery_code(account, one) for one in (RECOVERY[0], RECOVERY[0])] == [
        *(True, False)
    ]
    assert books.totp.read(account.id) == TotpView(APP_KEY, 10, NOW_MS, 1)


def test_a_removal_leaves_nothing(books: AnyBooks) -> None:
    account = books.accounts.read("a")
    books.totp.propose(account, APP_KEY)
    books.totp.confirm(account, APP_KEY, 7, RECOVERY)
    books.totp.remove("a")
    assert books.totp.read(account.id) is None
    assert not books.totp.use_recovery_code(account, RECOVERY[0])
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


DIGEST = b"1" * 32
TERMS = TokenTerms("shop", "accounts")


def create(
    books: AnyBooks, token_id: str = "tok_1", digest: bytes = DIGEST, terms: TokenTerms = TERMS
) -> TokenView:
    return books.tokens.create(terms, StoredSecret(token_id, digest, "a1b2"))


def test_a_token_is_found_by_its_digest(books: AnyBooks) -> None:
    made = create(books)
    assert made == TokenView("tok_1", TERMS, "a1b2", "cli", NOW_MS, None, None)
    assert books.tokens.find(DIGEST) == made
    assert books.tokens.find(b"2" * 32) is None


def test_a_name_is_free_again_once_its_token_is_revoked(books: AnyBooks, clock: Clock) -> None:
    create(books)
    with pytest.raises(Conflict) as caught:
        create(books, "tok_2", b"2" * 32)
    assert (caught.value.code, caught.value.field) == ("name_taken", "name")
    books.tokens.revoke("shop")
    clock.now_ms += 1
    create(books, "tok_2", b"2" * 32)
    assert [one.id for one in books.tokens.read_all()] == ["tok_2", "tok_1"]
    assert books.tokens.revoke("shop").id == "tok_2"


def test_a_token_is_revoked_once(books: AnyBooks, clock: Clock) -> None:
    create(books)
    assert books.tokens.revoke("tok_1").revoked_ms == NOW_MS
    clock.now_ms += 1
    assert books.tokens.revoke("tok_1").revoked_ms == NOW_MS
    found = books.tokens.find(DIGEST)
    assert found is not None
    assert found.status(clock()) == "revoked"
    for unknown in ("shop", "tok_2"):
        with pytest.raises(NotFound):
            books.tokens.revoke(unknown)
    events = books.events.read_page("token.", None, 10)
    assert [(one.action, one.target, one.detail) for one in events] == [
        ("token.revoke", "tok_1", "shop, role accounts"),
        ("token.add", "tok_1", "shop, role accounts"),
    ]


def test_the_last_use_is_written_now_and_then(
    books: AnyBooks, place: BooksPlace, clock: Clock
) -> None:
    """Each update is a write; a ledger that cannot be written still knows its tokens."""
    create(books, terms=replace(TERMS, expires_ms=NOW_MS + 3 * USED_EVERY_MS))
    noted = []
    for later_ms in (0, USED_EVERY_MS - 1, USED_EVERY_MS, 3 * USED_EVERY_MS):
        clock.now_ms = NOW_MS + later_ms
        books.tokens.find(DIGEST)
        noted.append(books.tokens.read_all()[0].last_used_ms)
    last_ms = NOW_MS + USED_EVERY_MS
    assert noted == [NOW_MS, NOW_MS, last_ms, last_ms], "one that has expired is not used"
    clock.now_ms = NOW_MS + 2 * USED_EVERY_MS
    place.refuse_writes(books)
    assert books.tokens.find(DIGEST) is not None
