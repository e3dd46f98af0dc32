"""Make tokens of scripts, and find one by its secret."""

from __future__ import annotations

import re
import secrets
from typing import Final

from gateway.admin import keys
from gateway.base.ids import digest
from gateway.extras.script_tokens.book import TokenBook
from gateway.extras.script_tokens.records import PREFIX, NewToken, TokenTerms, TokenView
from gateway.ledger import checks
from gateway.ledger.sql.books import Books

_TOKEN_BYTES: Final = 32
"""Random bytes of a token, 43 characters: 256 bits cannot be guessed."""
_TOKEN: Final = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")


def add_token(books: Books, terms: TokenTerms) -> NewToken:
    """Create a token. Only the returned record contains the secret."""
    checks.require_text("the token's name", terms.name, checks.MAX_NAME_CHARS, "name")
    if terms.expires_ms is not None:
        checks.require_expiry("the token's expiry", terms.expires_ms, books.clock())
    secret = PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    return NewToken(TokenBook(books).create(terms, keys.store("tok", secret)), secret)


def find_token(books: Books, secret: str) -> TokenView | None:
    """Return the token of a secret, also if it has ended; None if there is none."""
    return TokenBook(books).find(digest(secret)) if _TOKEN.fullmatch(secret) else None
