"""Codes for pictures of the console."""

from __future__ import annotations

from gateway.base.money import NANO
from gateway.extras.codes.book import CodeBook, make_codes, redeem
from gateway.ledger.sql.books import Books
from tests.support.served import OTHER


def add_past(books: Books) -> None:
    """Make some codes of which one is redeemed, and one void."""
    made, codes = make_codes(books, 10 * NANO, 4, note="Workshop"), CodeBook(books)
    redeem(books, OTHER, made.codes[0])
    _, open_ones = codes.read_page("open", None, None, None)
    codes.void(open_ones[0].id)
