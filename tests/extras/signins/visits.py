"""Passwords, links and sessions in a real database."""

from __future__ import annotations

import base64
from typing import Final

from gateway.extras.signins import signin, totp
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.records import SessionView
from gateway.ledger.sql.books import Books
from tests.admin.visits import NAME

LOG2_N: Final = 5
P: Final = 1
"""Parameters of scrypt for tests."""
VISITOR = ("Firefox on Linux", "192.0.2.1")


def open_by_link(books: Books, name: str = NAME) -> tuple[str, SessionView]:
    """Return the token and the session."""
    link = signin.make_signin_link(books, name)
    token, opening = signin.prepare_session(*VISITOR)
    view = signin.open_session_by_link(books, link.token, opening)
    assert view is not None
    return token, view


def set_up_totp(books: Books, name: str, person: str = "") -> tuple[bytes, tuple[str, ...]]:
    """Return the key of the app and the recovery codes; the present code is used up."""
    own = PeopleBook(books).read(name, person)
    key = base64.b32decode(totp.begin(books, own, "llm.example.com").secret)
    codes = totp.finish(books, own, show_totp(books, key))
    assert codes is not None
    return key, codes


def show_totp(books: Books, key: bytes, steps: int = 0) -> str:
    """Return what the app shows, so many steps from now."""
    return totp.compute_code(key, books.clock() // totp.STEP_MS + steps)
