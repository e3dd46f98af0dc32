"""The parts of the books' contract for those who use the console: sign-ins and tokens."""

from __future__ import annotations

from typing import Protocol

from gateway.ledger.records import AccountView, FailedBy, Opening, SessionView, StoredSecret
from gateway.ledger.token_records import TokenTerms, TokenView


class SignIns(Protocol):
    """Passwords as hashes, sign-in links and sessions by the SHA-256 of their token."""

    def find_password_hash(self, account: str) -> str | None:
        """Return None if there is no such account, or it has no password."""

    def set_password(self, account: str, password_hash: str) -> int:
        """Set it and end all sessions and links of the account; return how many sessions."""

    def change_password(
        self, session: SessionView, seen_hash: str | None, password_hash: str, opening: Opening
    ) -> SessionView:
        """Set the password for somebody who is signed in and goes on in a new session.

        `seen_hash` is what the current password was checked against. Raises NotFound if the
        session has ended meanwhile, Conflict if the password was changed.
        """

    def set_link(self, account: str, digest: bytes, expires_ms: int) -> None:
        """Give the account a sign-in link; an earlier one ends."""

    def open_by_link(self, digest: bytes, opening: Opening) -> SessionView | None:
        """Use a link up; return None if it is unknown, used or expired."""

    def open_by_password(
        self, account: str, seen_hash: str, renewed_hash: str | None, opening: Opening
    ) -> SessionView | None:
        """Open a session; return None if the password that was checked has been changed.

        `renewed_hash` is the same password hashed with the current parameters.
        """

    def open_by_header(self, account: str, opening: Opening) -> SessionView | None:
        """Return the session that a proxy's word opened for this device and address.

        It is opened if there is none; None if there is no such account.
        """

    def find_session(self, digest: bytes) -> SessionView | None:
        """Return the session if it has not ended, and note that it was used."""

    def read_sessions(self, account_id: int) -> list[SessionView]:
        """Return the sessions that have not ended, the last used first."""

    def end_session(self, account: AccountView, session_id: str) -> None:
        """Raises NotFound if the session has ended or is another account's."""

    def end_other_sessions(self, session: SessionView) -> int:
        """End the account's other sessions; return how many there were."""

    def end_all_sessions(self, account: str) -> int:
        """End all sessions and links of an account; return how many sessions there were."""

    def note_failure(self, account: str | None, how: FailedBy, *, if_known: bool = False) -> None:
        """Note a failure; unknown names are not kept: they may be passwords."""


class Tokens(Protocol):
    """Tokens of scripts, by their SHA-256."""

    def create(self, terms: TokenTerms, new: StoredSecret) -> TokenView:
        """Raises Conflict if a token that is not revoked has the name."""

    def read_all(self) -> list[TokenView]:
        """Return all tokens, the newest first."""

    def find(self, digest: bytes) -> TokenView | None:
        """Return the token, also if it has ended; note that it was used, unless it has."""

    def revoke(self, token: str) -> TokenView:
        """Revoke by id, or by name; a token that is revoked already keeps its time."""
