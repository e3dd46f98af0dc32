"""Rows of the tables that move, for tests of moves."""

from __future__ import annotations

from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.totp import TotpBook
from gateway.ledger.sql.books import Books


def add_rows(books: Books) -> None:
    """Let the account `a` and a person in it sign in."""
    SignInBook(books).set_password("a", "a hash")
    SignInBook(books).set_password("a", "a hash", "dana")
    TotpBook(books).propose(PeopleBook(books).read("a"), b"k" * 20)
    TotpBook(books).confirm(PeopleBook(books).read("a"), b"k" * 20, 7, [b"1" * 32, b"2" * 32])
