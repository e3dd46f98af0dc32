"""Passwords and one-use links: who may sign in, and how often."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.admin import signin
from gateway.admin.passwords import verify_password
from gateway.admin.signin import LINK_MS, NewSession
from gateway.ledger.opening import open_books
from gateway.ledger.records import Conflict, NotFound, Refused
from gateway.ledger.sql.books.books import Books
from tests.admin.visits import (
    HASH,
    NAME,
    OPERATOR,
    VISITOR,
    Clock,
    is_open,
    open_by_link,
    open_by_password,
    read,
    read_events,
)
from tests.support.rows import each_row

pytestmark = pytest.mark.usefixtures("cheap_passwords")


# ---- passwords ------------------------------------------------------------------------------------


def test_a_password_is_kept_as_a_hash(books: Books, path: Path) -> None:
    assert signin.set_password(books, NAME, "correct horse") == 0
    stored = books.signins.find_password_hash(NAME)
    assert stored is not None
    assert verify_password("correct horse", stored)
    assert books.signins.find_password_hash(OPERATOR) is None
    assert books.signins.find_password_hash("nobody") is None
    assert read_events(path) == [("cli", "account.password", NAME, "ended 0 sessions")]


@pytest.mark.parametrize(
    ("password", "text"),
    [
        ("", "at least 12"),
        ("correct hor", "at least 12"),
        ("x" * 1025, "at most 1024"),
        ("\u20ac" * 342, "at most 1024"),
        ("x" * 2**20, "at most 1024"),
        ("correct horse\0", "NUL"),
        ("correct horse\udc80", "UTF-8"),
    ],
)
def test_what_no_password_can_be(books: Books, password: str, text: str) -> None:
    with pytest.raises(Refused, match=text) as caught:
        signin.set_password(books, NAME, password)
    assert caught.value.field == "new_password"
    assert password == "" or password not in str(caught.value)


WORDS = "correct horse battery staple "


@each_row("password", ["correct hors", f"{WORDS}\u20ac" * 32, (WORDS * 36)[:1024]])
def test_what_a_password_can_be(password: str) -> None:
    signin.require_new_password(password, NAME)


def test_nobody_gets_no_password(books: Books) -> None:
    with pytest.raises(NotFound):
        signin.set_password(books, "nobody", "correct horse")


def test_a_new_password_ends_all_sessions_and_links(books: Books) -> None:
    first, second = open_by_link(books), open_by_link(books)
    other = open_by_link(books, OPERATOR)
    link = signin.make_signin_link(books, NAME)
    assert books.signins.set_password(NAME, HASH) == 2
    assert [is_open(books, one) for one in (first, second, other)] == [False, False, True]
    assert signin.open_session_by_link(books, link.token, VISITOR) is None


def test_a_password_that_was_changed_while_it_was_checked_opens_nothing(books: Books) -> None:
    books.signins.set_password(NAME, HASH)
    books.signins.set_password(NAME, "another hash")
    assert open_by_password(books) is None
    assert books.signins.read_sessions(books.accounts.read(NAME).id) == []


def test_a_renewed_hash_takes_the_place_of_the_old_one(books: Books) -> None:
    books.signins.set_password(NAME, HASH)
    made = signin.open_session_by_password(books, NAME, HASH, "renewed", VISITOR)
    assert made is not None
    assert books.signins.find_password_hash(NAME) == "renewed"


def test_changing_it_goes_on_under_a_new_id(books: Books, path: Path) -> None:
    books.signins.set_password(NAME, HASH)
    own, other = open_by_password(books), open_by_link(books)
    assert own is not None
    visitor = replace(VISITOR, session=own.view)
    made = signin.change_password(books, visitor, HASH, "new hash")
    assert [is_open(books, one) for one in (own, other, made)] == [False, False, True]
    assert made.token != own.token
    assert made.view.id != own.view.id
    assert made.view.opened_by == "password"
    assert read_events(path)[-1] == ("alice", "account.password", NAME, "ended 2 sessions")


def test_a_session_opened_by_a_link_has_to_know_the_password_it_set(books: Books) -> None:
    made = open_by_link(books)
    changed = signin.change_password(books, replace(VISITOR, session=made.view), None, HASH)
    assert changed.view.opened_by == "password"


def test_a_change_that_came_too_late_changes_nothing(books: Books) -> None:
    books.signins.set_password(NAME, HASH)
    made = open_by_link(books)
    visitor = replace(VISITOR, session=made.view)
    with pytest.raises(Conflict):
        signin.change_password(books, visitor, "an earlier hash", "new hash")
    assert is_open(books, made)
    books.signins.end_session(made.view.account, made.view.id)
    with pytest.raises(NotFound):
        signin.change_password(books, visitor, HASH, "new hash")
    assert books.signins.find_password_hash(NAME) == HASH


# ---- links ----------------------------------------------------------------------------------------


def test_a_link_works_once(books: Books, path: Path) -> None:
    link = signin.make_signin_link(books, NAME)
    made = signin.open_session_by_link(books, link.token, VISITOR)
    assert made is not None
    assert made.view.account.name == NAME
    assert made.view.opened_by == "link"
    assert signin.open_session_by_link(books, link.token, VISITOR) is None
    assert read(path, "SELECT * FROM signin_links") == []
    assert read_events(path) == [
        ("cli", "account.signin_link", NAME, ""),
        (NAME, "session.open", NAME, "by link"),
    ]


def test_a_link_expires_within_half_an_hour(books: Books, clock: Clock) -> None:
    link = signin.make_signin_link(books, NAME)
    assert link.expires_ms - clock.now_ms == LINK_MS == 30 * 60_000
    clock.now_ms = link.expires_ms
    assert signin.open_session_by_link(books, link.token, VISITOR) is None
    again = signin.make_signin_link(books, NAME)
    clock.now_ms = again.expires_ms - 1
    assert signin.open_session_by_link(books, again.token, VISITOR) is not None


def test_a_new_link_ends_the_earlier_one_of_that_account(books: Books) -> None:
    first, others = signin.make_signin_link(books, NAME), signin.make_signin_link(books, OPERATOR)
    second = signin.make_signin_link(books, NAME)
    assert signin.open_session_by_link(books, first.token, VISITOR) is None
    assert signin.open_session_by_link(books, second.token, VISITOR) is not None
    assert signin.open_session_by_link(books, others.token, VISITOR) is not None


@pytest.mark.parametrize("token", ["", "gwl_", "gwl_" + "A" * 43, "x" * 10_000, "\udc80", "'--"])
def test_no_other_token_opens_anything(books: Books, token: str) -> None:
    signin.make_signin_link(books, NAME)
    assert signin.open_session_by_link(books, token, VISITOR) is None
    assert signin.find_session(books, token) is None


def test_a_link_is_no_session_and_a_session_no_link(books: Books) -> None:
    link = signin.make_signin_link(books, NAME)
    assert signin.find_session(books, link.token) is None
    made = open_by_link(books)
    assert signin.open_session_by_link(books, made.token, VISITOR) is None


def test_a_link_that_many_race_for_opens_one_session(books: Books, path: Path) -> None:
    link = signin.make_signin_link(books, NAME)
    gate, opened = threading.Barrier(4), list[NewSession | None]()

    def race() -> None:
        with open_books(path, clock=books.clock) as own:
            gate.wait(10)
            opened.append(signin.open_session_by_link(own, link.token, VISITOR))

    racers = [threading.Thread(target=race) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(opened) == 4
    assert sum(one is not None for one in opened) == 1
    assert len(books.signins.read_sessions(books.accounts.read(NAME).id)) == 1


def test_the_url_has_its_token_where_no_server_sees_it(books: Books) -> None:
    link = signin.make_signin_link(books, NAME)
    assert link.url("https://x") == f"https://x/console/signin#token={link.token}"


def test_no_token_is_kept_or_shown(books: Books, path: Path) -> None:
    link, made = signin.make_signin_link(books, NAME), open_by_link(books, OPERATOR)
    for token in (link.token, made.token):
        assert token not in repr((link, made))
        assert all(token.encode() not in one.read_bytes() for one in path.parent.iterdir())
