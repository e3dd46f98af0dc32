"""Tokens for pictures of the console."""

from __future__ import annotations

from gateway.base.times import DAY_MS
from gateway.extras.script_tokens.book import add_token
from gateway.extras.script_tokens.records import TokenTerms
from gateway.ledger.sql.books import Books


def add_past(books: Books) -> None:
    add_token(books, TokenTerms("shop", "accounts", books.clock() + 300 * DAY_MS))
    add_token(books, TokenTerms("monitor", "read"))
