"""Rows of tokens, for the ledger's tests."""

from __future__ import annotations

from gateway.extras.script_tokens.book import add_token
from gateway.extras.script_tokens.records import TokenTerms
from gateway.ledger.sql.books import Books


def add_rows(books: Books) -> None:
    add_token(books, TokenTerms("shop", "accounts"))
