"""Signing in: passwords and their hashes, one-use links, sessions, one-time codes."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from gateway.extras.signins import passwords, signin, totp
from gateway.extras.signins.passwords import (
    hash_password,
    make_nobodys_hash,
    needs_rehash,
    verify_password,
)
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.signin import LINK_MS
from gateway.extras.signins.totp import TotpBook
from gateway.ledger.opening import open_books
from gateway.ledger.records import Conflict, NotFound, Refused
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from tests.admin.conftest import find_path, make_clock, open_accounts  # noqa: F401 - fixtures
from tests.admin.visits import NAME, OPERATOR, Clock, read_events
from tests.extras.signins.visits import VISITOR, open_by_link, set_up_totp, show_totp
from tests.support.rows import each_row

# ---- passwords and their hashes ------------------------------------------------------------------


@pytest.fixture(autouse=True)
def password_cost() -> None:
    """Passwords have their real cost."""


PASSWORD = "correct horse battery"
WORDS = "correct horse battery staple "


@pytest.mark.slow
def test_what_is_stored_is_scrypt_with_its_parameters_and_salt() -> None:
    """Another implementation of scrypt with the same parameters gives the same 32 bytes."""
    stored = hash_password(PASSWORD)
    assert re.fullmatch(r"scrypt\$15\$8\$3\$[\w-]{22}==\$[\w-]{43}=", stored)
    *_, salt, hashed = (base64.urlsafe_b64decode(one) for one in stored.split("$")[4:])
    parameters = {"n": 2**15, "r": 8, "p": 3, "maxmem": 2**26, "dklen": 32}
    assert hashed == hashlib.scrypt(PASSWORD.encode(), salt=salt, **parameters)


def test_the_cost_is_a_setting_of_owasp() -> None:
    assert (passwords.LOG2_N, passwords.R, passwords.P) == (15, 8, 3)
    assert re.fullmatch(r"scrypt\$15\$8\$3\$[\w-]{22}==\$[\w-]{43}=", make_nobodys_hash())


@pytest.mark.usefixtures("cheap_passwords")
def test_a_password_is_known_again() -> None:
    stored = hash_password(PASSWORD)
    assert verify_password(PASSWORD, stored)
    assert not any(verify_password(one, stored) for one in (PASSWORD + "x", "", stored))
    assert hash_password(PASSWORD) != stored, "the salt is another one"
    composed = hash_password("caf\u00e9 au lait")
    assert verify_password("cafe\u0301 au lait", composed), "letters may be composed otherwise"


def test_other_parameters_are_understood_and_renewed() -> None:
    salt = b"s" * 16
    weak = hashlib.scrypt(PASSWORD.encode(), salt=salt, n=2**4, r=8, p=1, dklen=32)
    texts = [base64.urlsafe_b64encode(one).decode() for one in (salt, weak)]
    stored = "$".join(("scrypt", "4", "8", "1", *texts))
    assert verify_password(PASSWORD, stored)
    assert needs_rehash(stored)
    assert not needs_rehash(make_nobodys_hash())
    assert make_nobodys_hash() != make_nobodys_hash()


@each_row(
    ("password", "text"),
    [
        *((one, None) for one in (f"{WORDS}\u20ac" * 32, (WORDS * 36)[:1024])),
        *((one, "at most 1024") for one in ("x" * 1025, "\u20ac" * 342)),
    ],
)
def test_a_password_has_at_most_1024_bytes(password: str, text: str | None) -> None:
    with nullcontext() if text is None else pytest.raises(Refused, match=text) as caught:
        signin.require_new_password(password, NAME)
    assert text is None or password not in str(caught)


def test_a_change_that_came_too_late_changes_nothing(books: Books) -> None:
    SignInBook(books).set_password(NAME, "a hash")
    token, view = open_by_link(books)
    _, opening = signin.prepare_session(*VISITOR, replaces=view.id)
    with pytest.raises(Conflict):
        SignInBook(books).change_password(view, "an earlier hash", "new hash", opening)
    assert signin.find_session(books, token)
    SignInBook(books).end_session(view.signin, view.id)
    with pytest.raises(NotFound):
        SignInBook(books).change_password(view, "a hash", "new hash", opening)
    assert PeopleBook(books).find_hash(PeopleBook(books).read(NAME)) == "a hash"


# ---- links ---------------------------------------------------------------------------------------


def test_a_link_is_no_session_and_no_token_is_kept_or_shown(books: Books, path: Path) -> None:
    link, (session, view) = signin.make_signin_link(books, NAME), open_by_link(books, OPERATOR)
    _, opening = signin.prepare_session(*VISITOR)
    assert link.expires_ms - books.clock() == LINK_MS == 30 * 60_000
    assert signin.find_session(books, link.token) is None
    assert signin.open_session_by_link(books, session, opening) is None
    for token in (link.token, session):
        assert token not in repr((link, view, opening))
        assert all(token.encode() not in one.read_bytes() for one in path.parent.iterdir())


# ---- sessions ------------------------------------------------------------------------------------


def test_a_session_is_fresh_for_ten_minutes(books: SqliteBooks, clock: Clock) -> None:
    _, view = open_by_link(books, OPERATOR)
    assert signin.is_fresh(view, clock.now_ms + 600_000)
    assert not signin.is_fresh(view, clock.now_ms + 600_001)
    assert not signin.is_fresh(view, clock.now_ms - 600_001), "the clock was ahead"
    proxied = replace(view, opened_by="identity header")
    assert signin.is_fresh(proxied, clock.now_ms + 600_001), "the proxy knows when they signed in"


# ---- one-time codes ------------------------------------------------------------------------------

STEP_MS = totp.STEP_MS


def check(books: Books, code: str | None, name: str = OPERATOR) -> str:
    return totp.check(books, PeopleBook(books).read(name), code)


def test_an_app_gets_the_key_as_text_and_as_a_link(books: Books) -> None:
    books.accounts.create("ann & co@x.com", credit_nano=0, operator=False)
    made = totp.begin(books, PeopleBook(books).read("ann & co@x.com"), "llm.example.com")
    assert len(base64.b32decode(made.secret)) == 20
    url = urlsplit(made.url)
    assert (url.scheme, url.netloc) == ("otpauth", "totp")
    assert unquote(url.path) == "/llm.example.com:ann & co@x.com"
    assert parse_qs(url.query) == {"secret": [made.secret], "issuer": ["llm.example.com"]}
    assert made.secret not in repr(made)


def test_a_code_works_once_and_a_step_before_and_after(books: Books, clock: Clock) -> None:
    key, _ = set_up_totp(books, OPERATOR)
    assert check(books, show_totp(books, key)) == "wrong", "it finished the set-up"
    assert {check(books, one) for one in ("x", "٣" * 6, "é" * 6, "\udc80")} == {"wrong"}
    assert check(books, None) == check(books, " ") == "missing"
    assert check(books, show_totp(books, key, 1)) == "right", "the app's clock is fast"
    assert {check(books, show_totp(books, key, steps)) for steps in (-1, 0, 1, 2)} == {"wrong"}
    clock.now_ms += 3 * STEP_MS
    late = show_totp(books, key, -1)
    assert check(books, f"{late[:3]} {late[3:]}") == "right", "the app's clock is slow"
    assert check(books, late) == "wrong"
    assert check(books, show_totp(books, key)) == "right"
    clock.now_ms += STEP_MS
    assert check(books, show_totp(books, key, -2)) == "wrong"


def test_a_recovery_code_works_once_however_it_is_typed(books: Books, path: Path) -> None:
    _, recovery = set_up_totp(books, OPERATOR)
    _, others = set_up_totp(books, NAME)
    assert check(books, recovery[3].lower().replace("-", " ")) == "right"
    assert check(books, recovery[3]) == "wrong"
    assert check(books, others[0]) == "wrong", "another account's"
    found = TotpBook(books).read(PeopleBook(books).read(OPERATOR))
    assert found is not None
    assert found.recovery_codes == 9
    assert read_events(path)[-1] == ("cli", "account.recovery_code", OPERATOR, "")
    stored = b"".join(one.read_bytes() for one in path.parent.iterdir())
    for code in recovery:
        assert code.encode() not in stored
        assert code.replace("-", "").encode() not in stored


@pytest.mark.slow
@each_row("what", ["link", "code", "recovery code"])
def test_one_of_many_that_race_gets_in(books: Books, path: Path, clock: Clock, what: str) -> None:
    name = f"racer of a {what}"
    books.accounts.create(name)
    link = signin.make_signin_link(books, name)
    key, recovery = set_up_totp(books, name)
    clock.now_ms += STEP_MS
    code = recovery[0] if what == "recovery code" else show_totp(books, key)
    gate = threading.Barrier(4)

    def race(_: int) -> bool:
        with open_books(path, clock=clock) as own:
            gate.wait(10)
            if what == "link":
                _token, opening = signin.prepare_session(*VISITOR)
                return signin.open_session_by_link(own, link.token, opening) is not None
            return check(own, code, name) == "right"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(race, range(4))) == [False, False, False, True]
