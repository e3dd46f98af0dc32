"""Sign-ins: links are used once, sessions end in time, and a new password ends them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.ledger.records import Conflict, NotFound
from gateway.ledger.signin_records import HOLDER_IDLE_MS, SESSION_MS, Opening, SessionView
from gateway.ledger.sql.books.signins import MAX_SESSIONS, SEEN_EVERY_MS
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks, BooksPlace


def opening(name: str, *, replaces: str | None = None) -> Opening:
    return Opening(name, name.encode().ljust(32), "Firefox on Linux", "192.0.2.7", replaces)


def open_session(books: AnyBooks, name: str, *, replaces: str | None = None) -> SessionView:
    session = books.signins.open_by_password("a", "hash", None, opening(name, replaces=replaces))
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
        books.signins.end_session(books.accounts.read("a"), "t")


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
    assert books.signins.open_by_password("a", password, None, opening("u")) is None
    assert books.signins.set_password("a", "newer") == 1, "how many sessions ended"


def test_a_suspended_operators_session_is_a_holders(books: AnyBooks) -> None:
    books.accounts.create("boss", credit_nano=0, operator=True)
    books.signins.set_password("boss", "hash")
    session = books.signins.open_by_password("boss", "hash", "renewed", opening("s"))
    assert session is not None
    assert session.account.operator
    assert books.signins.find_password_hash("boss") == "renewed"
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
