"""Tokens of scripts. The rows of revoked ones stay."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Final

from gateway.extras.script_tokens.records import TokenRole, TokenTerms, TokenView
from gateway.ledger.records import Conflict, LedgerError, NotFound, StoredSecret
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
        """Return the token, also if it has ended; note that it was used, unless it has."""
        now_ms = self._database.clock()
        row = self._database.read_one(_FIND_SCRIPT, (digest,))
        if row is None:
            return None
        token = _view(row)
        # A use is written once a minute, as each write waits for the disk.
        is_noted = now_ms - (token.last_used_ms or 0) < USED_EVERY_MS
        if token.status(now_ms) == "active" and not is_noted:
            with suppress(LedgerError):  # a full disk can be read
                self._database.update("tokens", token.id, {"last_used_ms": now_ms})
        return token

    def revoke(self, token: str) -> TokenView:
        """Revoke by id, or by name; a token that is revoked already keeps its time."""
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
