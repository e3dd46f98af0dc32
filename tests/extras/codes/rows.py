"""Rows of top-up codes, for the ledger's tests."""

from __future__ import annotations

from gateway.extras.codes.book import CodeBook, make_codes, redeem
from gateway.ledger.sql.books import Books


def add_rows(books: Books) -> None:
    """Make codes of which one is redeemed, by an account of its own, and one is void."""
    books.accounts.create("redeemer")
    made = make_codes(books, 9, 2)
    redeem(books, "redeemer", made.codes[0])
    CodeBook(books).void_batch(made.batch)
