"""Passwords, links and sessions in a real database."""

from __future__ import annotations

import base64

from gateway.extras.console import signin
from gateway.ledger.signin_records import SessionView
from gateway.ledger.sql.books import Books
from tests.admin.visits import NAME

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
    own = books.people.read(name, person)
    key = base64.b32decode(signin.begin(books, own, "llm.example.com").secret)
    codes = signin.finish(books, own, show_totp(books, key))
    assert codes is not None
    return key, codes


def show_totp(books: Books, key: bytes, steps: int = 0) -> str:
    """Return what the app shows, so many steps from now."""
    return signin.compute_code(key, books.clock() // signin.STEP_MS + steps)
