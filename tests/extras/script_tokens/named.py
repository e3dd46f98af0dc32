"""A token with any name, for what the console must not take for markup."""

from __future__ import annotations

from gateway.extras.script_tokens.book import add_token
from gateway.extras.script_tokens.records import TokenTerms
from gateway.ledger.sql.books import Books


def add_named(books: Books, name: str) -> None:
    add_token(books, TokenTerms(name, "read"))
