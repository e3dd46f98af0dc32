"""Tokens of scripts. The rows of revoked ones stay."""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from dataclasses import asdict
from typing import Final

from gateway.admin import keys
from gateway.base.ids import digest
from gateway.extras.script_tokens.records import PREFIX, NewToken, TokenRole, TokenTerms, TokenView
from gateway.ledger import checks
from gateway.ledger.records import Conflict, LedgerError, NotFound, StoredSecret
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Part, Value

USED_EVERY_MS: Final = 60_000
"""The precision of a token's last use, in ms: each update is a write."""

_EACH_SCRIPT: Final = (
    "SELECT id, name, role, expires_ms, last4, created_by, created_ms, revoked_ms, last_used_ms"
    " FROM tokens"
)
_FIND_SCRIPT: Final = f"{_EACH_SCRIPT} WHERE digest = ?"
_LIVE_NAME: Final = f"{_EACH_SCRIPT} WHERE name = ? AND revoked_ms IS NULL"
_NAMED: Final = f"{_EACH_SCRIPT} WHERE id = :token OR (name = :token AND revoked_ms IS NULL)"
_NEWEST_FIRST: Final = f"{_EACH_SCRIPT} ORDER BY created_ms DESC, id"
Columns = tuple[str, str, TokenRole, int | None, str, str, int, int | None, int | None]


class TokenBook(Part):
    """Tokens of scripts, by their SHA-256."""

    def create(self, terms: TokenTerms, new: StoredSecret) -> TokenView:
        """Add a token. Raises Conflict if one that is not revoked has the name."""
        with self._database.changing():
            if self._database.read_one(_LIVE_NAME, (terms.name,)) is not None:
                raise Conflict(
                    f"there is a token '{terms.name}' already; revoke it, or take another name",
                    code="name_taken",
                    field="name",
                )
            made: dict[str, Value] = {
                "created_by": self._database.actor.name,
                "created_ms": self._database.clock(),
            }
            made |= asdict(new) | asdict(terms)
            self._database.insert("tokens", made)
            self._note("token.add", new.id, terms)
            return _view(self._database.read_one(_FIND_SCRIPT, (new.digest,)))

    def read_all(self) -> list[TokenView]:
        """Return all tokens, the newest first."""
        return [_view(row) for row in self._database.fetch(_NEWEST_FIRST)]

    def find(self, digest: bytes) -> TokenView | None:
        """Return the token, also if it has ended; otherwise note that it was used."""
        now_ms = self._database.clock()
        row = self._database.read_one(_FIND_SCRIPT, (digest,))
        if row is None:
            return None
        token = _view(row)
        # A use is written once a minute, as each write waits for the disk.
        is_noted = now_ms - (token.last_used_ms or 0) < USED_EVERY_MS
        if token.status(now_ms) == "active" and not is_noted:
            with suppress(LedgerError):  # with a full disk the token is still valid
                self._database.update("tokens", token.id, {"last_used_ms": now_ms})
        return token

    def revoke(self, token: str) -> TokenView:
        """Revoke a token by its id or name; one that is revoked already keeps the time of that."""
        with self._database.changing():
            missing = NotFound(f"there is no token '{token}' that could be revoked")
            found = _view(self._database.require_one(_NAMED, {"token": token}, missing))
            if found.revoked_ms is not None:
                return found
            self._database.update("tokens", found.id, {"revoked_ms": self._database.clock()})
            self._note("token.revoke", found.id, found.terms)
            return _view(self._database.read_one(_NAMED, {"token": found.id}))

    def _note(self, action: str, token_id: str, terms: TokenTerms) -> None:
        detail = f"{terms.name}, role {terms.role}"
        self._database.note(action, account=None, target=token_id, detail=detail)


def _view(row: Columns) -> TokenView:
    return TokenView(row[0], TokenTerms(*row[1:4]), *row[4:])


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
