"""One-time codes of holders, and tokens of scripts.

What is to be used once is compared and noted in one statement, so that of two requests with the same
code one is let in. The rows of revoked tokens stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Final

from gateway.ledger.records import AccountView, Conflict, LedgerError, NotFound, StoredSecret
from gateway.ledger.signin_records import TokenRole, TokenTerms, TokenView, TotpView
from gateway.ledger.sql.books.database import Part, read_account
from gateway.ledger.sql.connection import Value, insert

_READ_TOTP: Final = """
    SELECT secret, last_step, confirmed_ms,
        (SELECT count(*) FROM recovery_codes WHERE recovery_codes.account_id = totp.account_id)
    FROM totp WHERE account_id = ?
"""
_PROPOSE: Final = """
    INSERT INTO totp (account_id, secret, last_step, created_ms) VALUES (?, ?, 0, ?)
    ON CONFLICT (account_id) DO UPDATE SET
        secret = excluded.secret, last_step = 0, created_ms = excluded.created_ms
    WHERE totp.confirmed_ms IS NULL
"""
_CONFIRM: Final = """
    UPDATE totp SET confirmed_ms = ?, last_step = ?
    WHERE account_id = ? AND secret = ? AND confirmed_ms IS NULL
"""
_USE_STEP: Final = """
    UPDATE totp SET last_step = :step
    WHERE account_id = :account AND last_step < :step AND confirmed_ms IS NOT NULL
"""
_USE_CODE: Final = "DELETE FROM recovery_codes WHERE account_id = ? AND digest = ?"
_ADD_CODE: Final = "INSERT INTO recovery_codes (account_id, digest) VALUES (?, ?)"
_REMOVE_TOTP: Final = (
    "DELETE FROM recovery_codes WHERE account_id = ?",
    "DELETE FROM totp WHERE account_id = ?",
)


class TotpBook(Part):
    """Keys of apps are kept in the clear, recovery codes by their SHA-256."""

    def read(self, account_id: int) -> TotpView | None:
        row = self._database.read_one(_READ_TOTP, (account_id,))
        return None if row is None else TotpView(bytes(row[0]), *row[1:])

    def propose(self, account: AccountView, secret: bytes) -> None:
        """Keep a key for a set-up, in place of an earlier one. Raises Conflict after a set-up."""
        with self._database.changing() as connection:
            row = (account.id, secret, self._database.clock())
            if not connection.execute(_PROPOSE, row).rowcount:
                raise Conflict("one-time codes are set up already; remove them first")

    def confirm(
        self, account: AccountView, secret: bytes, step: int, digests: Sequence[bytes]
    ) -> None:
        """End the set-up, by the code of a step: codes are asked for from now on.

        `digests` are those of the recovery codes. Raises Conflict if that key is not proposed.
        """
        with self._database.changing() as connection:
            row = (self._database.clock(), step, account.id, secret)
            if not connection.execute(_CONFIRM, row).rowcount:
                raise Conflict("the set-up was begun anew meanwhile, or has been finished")
            connection.executemany(_ADD_CODE, [(account.id, digest) for digest in digests])
            self._database.note("account.totp", account=account.name, detail="set up")

    def use_step(self, account_id: int, step: int) -> bool:
        """Use a time step up; return False if it, or a later one, was used before."""
        with self._database.changing() as connection:
            return bool(
                connection.execute(_USE_STEP, {"account": account_id, "step": step}).rowcount
            )

    def use_recovery_code(self, account: AccountView, digest: bytes) -> bool:
        """Use a recovery code up; return False if there is none."""
        with self._database.changing() as connection:
            if not connection.execute(_USE_CODE, (account.id, digest)).rowcount:
                return False
            self._database.note("account.recovery_code", account=account.name)
            return True

    def remove(self, account: str) -> None:
        """Ask for no codes any more. Raises NotFound if there is no set-up."""
        with self._database.changing() as connection:
            account_id = read_account(connection, account).id
            removed = [connection.execute(sql, (account_id,)).rowcount for sql in _REMOVE_TOTP]
            if not removed[-1]:
                raise NotFound(f"account '{account}' has no one-time codes")
            self._database.note("account.totp", account=account, detail="removed")


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
            return _view(connection.execute(_FIND_SCRIPT, (new.digest,)).fetchone())

    def read_all(self) -> list[TokenView]:
        """Return all tokens, the newest first."""
        with self._database.reading() as connection:
            return [_view(row) for row in connection.execute(_NEWEST_FIRST)]

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
    return TokenView(row[0], TokenTerms(*row[1:4]), *row[4:])
