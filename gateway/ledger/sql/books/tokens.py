"""Tokens of scripts: created, looked up and revoked; the rows of revoked ones stay."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Final

from gateway.ledger.records import Conflict, LedgerError, NotFound, StoredSecret
from gateway.ledger.signin_records import TokenRole, TokenTerms, TokenView
from gateway.ledger.sql.books.database import Database
from gateway.ledger.sql.connection import Value, insert

USED_EVERY_MS: Final = 60_000
"""The precision of a token's last use, in ms: each update is a write."""

_EACH: Final = (
    "SELECT id, name, role, expires_ms, last4, created_by, created_ms, revoked_ms, last_used_ms"
    " FROM tokens"
)
_FIND: Final = f"{_EACH} WHERE digest = ?"
_LIVE_NAME: Final = f"{_EACH} WHERE name = ? AND revoked_ms IS NULL"
_NAMED: Final = f"{_EACH} WHERE id = :token OR (name = :token AND revoked_ms IS NULL)"
_NEWEST_FIRST: Final = f"{_EACH} ORDER BY created_ms DESC, id"
Columns = tuple[str, str, TokenRole, int | None, str, str, int, int | None, int | None]


class TokenBook:
    """Tokens of scripts, by their SHA-256."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, terms: TokenTerms, new: StoredSecret) -> TokenView:
        """Raises Conflict if a token that is not revoked has the name."""
        with self._database.changing() as connection:
            if connection.execute(_LIVE_NAME, (terms.name,)).fetchone() is not None:
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
            insert(connection, "tokens", made)
            self._note("token.add", new.id, terms)
            return _view(connection.execute(_FIND, (new.digest,)).fetchone())

    def read_all(self) -> list[TokenView]:
        """Return all tokens, the newest first."""
        with self._database.reading() as connection:
            return [_view(row) for row in connection.execute(_NEWEST_FIRST)]

    def find(self, digest: bytes) -> TokenView | None:
        """Return the token, also if it has ended; note that it was used, unless it has."""
        now_ms = self._database.clock()
        with self._database.reading() as connection:
            row = connection.execute(_FIND, (digest,)).fetchone()
        if row is None:
            return None
        token = _view(row)
        is_noted = now_ms - (token.last_used_ms or 0) < USED_EVERY_MS
        if token.status(now_ms) == "active" and not is_noted:
            with suppress(LedgerError), self._database.changing() as connection:
                connection.execute(  # a full disk can be read
                    "UPDATE tokens SET last_used_ms = ? WHERE id = ?", (now_ms, token.id)
                )
        return token

    def revoke(self, token: str) -> TokenView:
        """Revoke by id, or by name; a token that is revoked already keeps its time."""
        with self._database.changing() as connection:
            row = connection.execute(_NAMED, {"token": token}).fetchone()
            if row is None:
                raise NotFound(f"there is no token '{token}' that could be revoked")
            found = _view(row)
            if found.revoked_ms is not None:
                return found
            connection.execute(
                "UPDATE tokens SET revoked_ms = ? WHERE id = ?", (self._database.clock(), found.id)
            )
            self._note("token.revoke", found.id, found.terms)
            return _view(connection.execute(_NAMED, {"token": found.id}).fetchone())

    def _note(self, action: str, token_id: str, terms: TokenTerms) -> None:
        detail = f"{terms.name}, role {terms.role}"
        self._database.note(action, account=None, target=token_id, detail=detail)


def _view(row: Columns) -> TokenView:
    token_id, name, role, expires_ms, last4, created_by, created_ms, revoked_ms, used_ms = row
    terms = TokenTerms(name, role, expires_ms)
    return TokenView(token_id, terms, last4, created_by, created_ms, revoked_ms, used_ms)
