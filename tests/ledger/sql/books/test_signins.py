"""Sign-ins, one-time codes and tokens: each is used once or in time, and what ends them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.ledger.records import Conflict, NotFound, StoredSecret
from gateway.ledger.signin_records import (
    HOLDER_IDLE_MS,
    SESSION_MS,
    Opening,
    SessionView,
    StoredPassword,
    TokenTerms,
    TokenView,
    TotpView,
)
from gateway.ledger.sql.books import USED_EVERY_MS
from gateway.ledger.sql.signins import MAX_SESSIONS, SEEN_EVERY_MS
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks, BooksPlace


def opening(name: str, *, replaces: str | None = None) -> Opening:
    return Opening(name, name.encode().ljust(32), "Firefox on Linux", "192.0.2.7", replaces)


def make_stored(books: AnyBooks, password_hash: str, name: str = "a") -> StoredPassword:
    return StoredPassword(books.people.read(name), password_hash)


def open_session(books: AnyBooks, name: str, *, replaces: str | None = None) -> SessionView:
    stored = make_stored(books, "hash")
    session = books.signins.open_by_password(stored, None, opening(name, replaces=replaces))
    assert session is not None
    return session


@pytest.fixture
def password(books: AnyBooks) -> str:
    books.signins.set_password("a", "hash")
    return "hash"


def test_a_link_is_used_once_and_in_time(books: AnyBooks, clock: Clock) -> None:
    for digest, expires_ms in ((b"1" * 32, NOW_MS + 1), (b"2" * 32, NOW_MS + 2)):
        books.signins.set_link("a", digest, expires_ms)
    assert books.signins.open_by_link(b"1" * 32, opening("s")) is None, "a later link replaced it"
    clock.now_ms += 1
    session = books.signins.open_by_link(b"2" * 32, opening("s"))
    assert session is not None
    assert (session.id, session.opened_by) == ("s", "link")
    assert books.signins.open_by_link(b"2" * 32, opening("t")) is None
    books.signins.set_link("a", b"3" * 32, clock())
    assert books.signins.open_by_link(b"3" * 32, opening("t")) is None, "it has expired"


@pytest.mark.usefixtures("password")
def test_a_session_ends_unused_or_old(books: AnyBooks, clock: Clock) -> None:
    digest = open_session(books, "s").id.encode().ljust(32)
    clock.now_ms += HOLDER_IDLE_MS - 1
    while clock() < NOW_MS + SESSION_MS:
        assert books.signins.find_session(digest) is not None, "it was used in time"
        clock.now_ms += HOLDER_IDLE_MS - 1
    assert books.signins.find_session(digest) is None, "however much it is used"
    digest = open_session(books, "t").id.encode().ljust(32)
    clock.now_ms += HOLDER_IDLE_MS
    assert books.signins.find_session(digest) is None
    with pytest.raises(NotFound):
        books.signins.end_session(books.people.read("a"), "t")


@pytest.mark.usefixtures("password")
def test_the_last_use_is_written_now_and_then(
    books: AnyBooks, place: BooksPlace, clock: Clock
) -> None:
    """Each update is a write; a ledger that cannot be written still knows its sessions."""
    digest = open_session(books, "s").id.encode().ljust(32)
    for seconds_ms in (SEEN_EVERY_MS - 1, SEEN_EVERY_MS):
        clock.now_ms = NOW_MS + seconds_ms
        assert books.signins.find_session(digest) is not None
    assert books.signins.read_sessions(1)[0].last_seen_ms == NOW_MS + SEEN_EVERY_MS
    place.refuse_writes(books)
    clock.now_ms += SEEN_EVERY_MS
    assert books.signins.find_session(digest) is not None


@pytest.mark.usefixtures("password")
def test_one_session_too_many_ends_the_least_used(books: AnyBooks, clock: Clock) -> None:
    for number in range(MAX_SESSIONS + 1):
        clock.now_ms += 1
        open_session(books, f"s{number}")
    open_session(books, "new", replaces=f"s{MAX_SESSIONS}")
    found = {one.id for one in books.signins.read_sessions(1)}
    assert found == {"new", *(f"s{number}" for number in range(1, MAX_SESSIONS))}


def test_a_new_password_ends_sessions_and_links(books: AnyBooks, password: str) -> None:
    session = open_session(books, "s")
    books.signins.set_link("a", b"1" * 32, NOW_MS + 1)
    with pytest.raises(Conflict):
        books.signins.change_password(session, "other", "new", opening("t"))
    assert books.signins.change_password(session, password, "new", opening("t")).id == "t"
    assert [one.id for one in books.signins.read_sessions(1)] == ["t"]
    assert books.signins.open_by_link(b"1" * 32, opening("u")) is None
    assert books.signins.open_by_password(make_stored(books, password), None, opening("u")) is None
    assert books.signins.set_password("a", "newer") == 1, "how many sessions ended"


def test_a_suspended_operators_session_is_a_holders(books: AnyBooks) -> None:
    books.accounts.create("boss", credit_nano=0, operator=True)
    books.signins.set_password("boss", "hash")
    session = books.signins.open_by_password(
        make_stored(books, "hash", "boss"), "renewed", opening("s")
    )
    assert session is not None
    assert session.account.operator
    assert books.people.find_hash(session.signin) == "renewed"
    books.accounts.suspend("boss")
    found = books.signins.find_session(b"s".ljust(32))
    assert found is not None
    assert not found.account.operator


def test_a_failure_under_an_unknown_name_does_not_keep_it(books: AnyBooks) -> None:
    """It may be somebody's password."""
    for name in ("a", "hunter2", None):
        books.signins.note_failure(name, "password")
    failures = books.events.read_page("session.fail", None, 5)
    assert [event.account for event in failures] == [None, None, "a"]


def test_a_proxy_s_word_opens_one_session_for_an_address(books: AnyBooks, clock: Clock) -> None:
    first = books.signins.open_by_header("a", opening("s"))
    assert (first.id, first.opened_by, first.by_proxy) == ("s", "identity header", True)
    clock.now_ms += HOLDER_IDLE_MS - 1
    other = replace(opening("t"), device="Chrome on Windows")
    assert books.signins.open_by_header("a", other).id == "s", "it goes on"
    assert books.signins.find_by_header("a", "192.0.2.8") is None
    assert books.signins.open_by_header("a", replace(opening("v"), address="192.0.2.8")).id == "v"
    clock.now_ms += HOLDER_IDLE_MS
    assert books.signins.open_by_header("a", opening("u")).id == "u", "the old one was not used"
    with pytest.raises(NotFound):
        books.signins.open_by_header("b", opening("w"))
    noted = [one.detail for one in books.events.read_page("session.open", None, 10)]
    assert noted == ["by identity header"] * 3


APP_KEY, OTHER = b"k" * 20, b"o" * 20
RECOVERY = [b"1" * 32, b"2" * 32]


def test_a_key_is_asked_for_once_it_is_confirmed(books: AnyBooks) -> None:
    own = books.people.read("a")
    assert books.totp.read(own) is None
    books.totp.propose(own, OTHER)
    books.totp.propose(own, APP_KEY)
    assert books.totp.read(own) == TotpView(APP_KEY, 0, None, 0)
    assert not books.totp.use_step(own, 7), "it is not confirmed"
    with pytest.raises(Conflict):
        books.totp.confirm(own, OTHER, 7, RECOVERY)
    books.totp.confirm(own, APP_KEY, 7, RECOVERY)
    assert books.totp.read(own) == TotpView(APP_KEY, 7, NOW_MS, 2)
    with pytest.raises(Conflict):
        books.totp.confirm(own, APP_KEY, 8, [])
    with pytest.raises(Conflict):
        books.totp.propose(own, OTHER)
    assert [event.detail for event in books.events.read_page("account.totp", None, 5)] == ["set up"]


def test_what_was_used_is_used_up(books: AnyBooks) -> None:
    own = books.people.read("a")
    books.totp.propose(own, APP_KEY)
    books.totp.confirm(own, APP_KEY, 7, RECOVERY)
    assert [books.totp.use_step(own, step) for step in (7, 9, 9, 8, 10)] == [
        *(False, True, False, False, True)
    ]
    assert [books.totp.use_recovery_code(own, one) for one in (RECOVERY[0], RECOVERY[0])] == [
        *(True, False)
    ]
    assert books.totp.read(own) == TotpView(APP_KEY, 10, NOW_MS, 1)


def test_a_removal_leaves_nothing(books: AnyBooks) -> None:
    own = books.people.read("a")
    books.totp.propose(own, APP_KEY)
    books.totp.confirm(own, APP_KEY, 7, RECOVERY)
    books.totp.remove(own)
    assert books.totp.read(own) is None
    assert not books.totp.use_recovery_code(own, RECOVERY[0])
    with pytest.raises(NotFound):
        books.totp.remove(own)


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


def test_the_last_use_of_a_credential_is_written_now_and_then(
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
