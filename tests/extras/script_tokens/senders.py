"""The senders of the requests of `uncollected.txt`."""

from __future__ import annotations

from gateway.extras.script_tokens.book import add_token
from gateway.extras.script_tokens.records import TokenTerms
from gateway.ledger.sql.books import Books


def make_keys(books: Books) -> dict[str, str]:
    return {"operator": add_token(books, TokenTerms("script", "operator")).secret}
