"""One-time codes: the keys of holders' apps, the last step that was used, and recovery codes.

What is to be used once is compared and noted in one statement, so that of two requests with the same
code one is let in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.ledger.records import AccountView, Conflict, NotFound
from gateway.ledger.signin_records import TotpView
from gateway.ledger.sql.books.database import Database, read_account

_READ: Final = """
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
_REMOVE: Final = (
    "DELETE FROM recovery_codes WHERE account_id = ?",
    "DELETE FROM totp WHERE account_id = ?",
)


class TotpBook:
    """Keys of apps are kept in the clear, recovery codes by their SHA-256."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, account_id: int) -> TotpView | None:
        with self._database.reading() as connection:
            row = connection.execute(_READ, (account_id,)).fetchone()
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
            removed = [connection.execute(sql, (account_id,)).rowcount for sql in _REMOVE]
            if not removed[-1]:
                raise NotFound(f"account '{account}' has no one-time codes")
            self._database.note("account.totp", account=account, detail="removed")
