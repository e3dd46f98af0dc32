"""The verbs of tokens, by which scripts use the console's API without a session.

A token is `gwt_` and 256 random bits, which cannot be guessed; only its SHA-256 is stored.
"""

from __future__ import annotations

import re
import secrets
from typing import Final

from gateway.admin.checks import MAX_NAME_CHARS, require_expiry, require_text
from gateway.apikeys import digest, find_last4
from gateway.ledger import (
    SCRIPT_PREFIX,
    Books,
    NewToken,
    StoredSecret,
    TokenTerms,
    TokenView,
)

_TOKEN_BYTES: Final = 32
"""Random bytes of a token, 43 characters: 256 bits cannot be guessed."""
_TOKEN_ID_BYTES: Final = 8
"""Random bytes of a token's id: 64 bits, so that two ids do not collide."""
_TOKEN: Final = re.compile(rf"{SCRIPT_PREFIX}[A-Za-z0-9_-]{{43}}")


def add_token(books: Books, terms: TokenTerms) -> NewToken:
    """Create a token. Only the returned record contains the secret."""
    require_text("the token's name", terms.name, MAX_NAME_CHARS, "name")
    if terms.expires_ms is not None:
        require_expiry("the token's expiry", terms.expires_ms, books.clock())
    secret = SCRIPT_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    last4 = find_last4(secret)
    assert last4 is not None
    token_id = "tok_" + secrets.token_hex(_TOKEN_ID_BYTES)
    return NewToken(
        books.tokens.create(terms, StoredSecret(token_id, digest(secret), last4)), secret
    )


def find_token(books: Books, secret: str) -> TokenView | None:
    """Return the token of a secret, also if it has ended; None if there is none."""
    return books.tokens.find(digest(secret)) if _TOKEN.fullmatch(secret) else None
