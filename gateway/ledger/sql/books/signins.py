"""Passwords, one-use sign-in links and sessions of the console.

Passwords are stored as hashes, links and sessions by the SHA-256 of their token. Whether a session
is an operator's is read from its account each time, so a change of role counts at once. A session
of a suspended operator counts as a holder's, so that they cannot resume their own account.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from gateway.ledger.records import AccountView, Conflict, LedgerError, NotFound
from gateway.ledger.signin_records import (
    HOLDER_IDLE_MS,
    OPERATOR_IDLE_MS,
    OPERATOR_SESSION_MS,
    SESSION_MS,
    FailedBy,
    OpenedBy,
    Opening,
    SessionView,
)
from gateway.ledger.sql.books.database import (
    ACCOUNT_COLUMNS,
    AccountColumns,
    Part,
    read_account,
    view_account,
)
from gateway.ledger.sql.connection import Connection, Value, insert

SEEN_EVERY_MS: Final = 60_000
"""The precision of a session's last use, in ms: each update is a write."""

MAX_SESSIONS: Final = 100
"""Sessions of an account. One more ends the session that was not used for longest."""

_LIVE: Final = f"""
    FROM sessions JOIN accounts ON accounts.id = sessions.account_id
    WHERE sessions.expires_ms > :now AND CASE accounts.operator
        WHEN 1 THEN sessions.last_seen_ms + {OPERATOR_IDLE_MS} > :now
            AND sessions.created_ms + {OPERATOR_SESSION_MS} > :now
        ELSE sessions.last_seen_ms + {HOLDER_IDLE_MS} > :now END
"""
_COLUMNS: Final = f"""
    SELECT {ACCOUNT_COLUMNS}, sessions.id, opened_by, device, address,
        sessions.created_ms, last_seen_ms, sessions.expires_ms
"""
_ID: Final = "SELECT sessions.id"
_ACCOUNT_ID: Final = "SELECT id FROM accounts WHERE name = ?"
_FIND: Final = f"{_COLUMNS} {_LIVE} AND digest = :digest"
_FIND_BY_HEADER: Final = (
    f"{_COLUMNS} {_LIVE} AND name = :name AND opened_by = 'identity header'"
    " AND address = :address ORDER BY last_seen_ms DESC LIMIT 1"
)
_LIST: Final = (
    f"{_COLUMNS} {_LIVE} AND account_id = :account ORDER BY last_seen_ms DESC, sessions.id"
)
_FIND_ID: Final = f"{_ID} {_LIVE} AND account_id = :account AND sessions.id = :id"
_SEEN: Final = "UPDATE sessions SET last_seen_ms = ? WHERE id = ?"
_DELETE: Final = "DELETE FROM sessions"
_END: Final = f"{_DELETE} WHERE id = ?"
_SWEEP: Final = f"{_DELETE} WHERE id NOT IN ({_ID} {_LIVE})"
_CROWD_OUT: Final = """
    DELETE FROM sessions WHERE account_id = :account AND id NOT IN (
        SELECT id FROM sessions WHERE account_id = :account
        ORDER BY last_seen_ms DESC, created_ms DESC, id LIMIT :most
    )
"""
_SET_LINK: Final = (
    "INSERT INTO signin_links (account_id, digest, created_ms, expires_ms) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (account_id) DO UPDATE SET digest = excluded.digest,"
    " created_ms = excluded.created_ms, expires_ms = excluded.expires_ms"
)
_HASH: Final = "SELECT hash FROM passwords JOIN accounts ON accounts.id = account_id WHERE name = ?"
_SET_HASH: Final = (
    "INSERT INTO passwords (account_id, hash, changed_ms) VALUES (?, ?, ?)"
    " ON CONFLICT (account_id) DO UPDATE SET hash = excluded.hash, changed_ms = excluded.changed_ms"
)


class SignInBook(Part):
    """Passwords as hashes, sign-in links and sessions by the SHA-256 of their token."""

    def find_password_hash(self, account: str) -> str | None:
        """Return None if there is no such account, or it has no password."""
        row = self._database.read_one(_HASH, (account,))
        return None if row is None else str(row[0])

    def set_password(self, account: str, password_hash: str) -> int:
        """Set it and end all sessions and links of the account; return how many sessions."""
        with self._database.changing() as connection:
            account_id = read_account(connection, account).id
            return self._set_password(connection, account_id, account, password_hash)

    def change_password(
        self, session: SessionView, seen_hash: str | None, password_hash: str, opening: Opening
    ) -> SessionView:
        """Set the password for somebody who is signed in and goes on in a new session.

        `seen_hash` is what the current password was checked against. Raises NotFound if the
        session has ended meanwhile, Conflict if the password was changed.
        """
        account = session.account
        with self._database.changing() as connection:
            # Hashing takes long, so the password was checked outside this transaction.
            self._require_session(connection, account.id, session.id)
            if self.find_password_hash(account.name) != seen_hash:
                raise Conflict("the password was changed meanwhile")
            self._set_password(connection, account.id, account.name, password_hash)
            # Nobody signed in anew: what asks for that asks for the second factor, too.
            return self._open(connection, account.id, "password", opening, session.created_ms)

    def set_link(self, account: str, digest: bytes, expires_ms: int) -> None:
        """Give the account a sign-in link; an earlier one ends."""
        with self._database.changing() as connection:
            account_id = read_account(connection, account).id
            connection.execute(_SET_LINK, (account_id, digest, self._database.clock(), expires_ms))
            self._database.note("account.signin_link", account=account)

    def open_by_link(self, digest: bytes, opening: Opening) -> SessionView | None:
        """Use a link up; return None if it is unknown, used or expired."""
        known = self._database.read_one("SELECT 1 FROM signin_links WHERE digest = ?", (digest,))
        if known is None:  # anybody can send what is no link: it must not wait for the disk
            return None
        with self._database.changing() as connection:
            row = connection.execute(
                # Deleted and read in one statement: of two requests with one link, one is let in.
                "DELETE FROM signin_links WHERE digest = ? RETURNING account_id, expires_ms",
                (digest,),
            ).fetchone()
            if row is None or row[1] <= self._database.clock():
                return None
            return self._open_noted(connection, row[0], "link", opening)

    def open_by_password(
        self, account: str, seen_hash: str, renewed_hash: str | None, opening: Opening
    ) -> SessionView | None:
        """Open a session; return None if the password that was checked has been changed.

        `renewed_hash` is the same password hashed with the current parameters.
        """
        with self._database.changing() as connection:
            # Hashing takes long: the password may have been changed since it was checked.
            if self.find_password_hash(account) != seen_hash:
                return None
            account_id = read_account(connection, account).id
            if renewed_hash is not None:
                connection.execute(
                    "UPDATE passwords SET hash = ? WHERE account_id = ?", (renewed_hash, account_id)
                )
            return self._open_noted(connection, account_id, "password", opening)

    def find_by_header(self, account: str, address: str) -> SessionView | None:
        """Return the session opened by a trusted proxy's header for this address."""
        return self._find(_FIND_BY_HEADER, {"name": account, "address": address})

    def open_by_header(self, account: str, opening: Opening) -> SessionView:
        """Open that session if there is none. Raises NotFound if there is no such account."""
        with self._database.changing() as connection:
            # A page asks for several things at once, and the first of them opens it.
            found = self.find_by_header(account, opening.address)
            if found is not None:
                return found
            account_id = read_account(connection, account).id
            return self._open_noted(connection, account_id, "identity header", opening)

    def find_session(self, digest: bytes) -> SessionView | None:
        """Return the session if it has not ended, and note that it was used."""
        return self._find(_FIND, {"digest": digest})

    def _find(self, sql: str, where: Mapping[str, Value]) -> SessionView | None:
        """Return the session, and note that it was used."""
        now_ms = self._database.clock()
        row = self._database.read_one(sql, {"now": now_ms, **where})
        if row is None:
            return None
        view = _session_view(row)
        if now_ms - view.last_seen_ms >= SEEN_EVERY_MS:
            with suppress(LedgerError), self._database.changing() as connection:
                # A full disk can be read.
                connection.execute(_SEEN, (now_ms, view.id))
        return view

    def read_sessions(self, account_id: int) -> list[SessionView]:
        """Return the sessions that have not ended, the last used first."""
        with self._database.reading() as connection:
            rows = connection.execute(_LIST, {"now": self._database.clock(), "account": account_id})
            return [_session_view(row) for row in rows]

    def end_session(self, account: AccountView, session_id: str) -> None:
        """Raises NotFound if the session has ended or is another account's."""
        with self._database.changing() as connection:
            self._require_session(connection, account.id, session_id)
            connection.execute(_END, (session_id,))
            self._database.note("session.end", account=account.name, target=session_id)

    def end_other_sessions(self, session: SessionView) -> int:
        """End the account's other sessions; return how many there were."""
        account = session.account
        with self._database.changing() as connection:
            others = [one.id for one in self.read_sessions(account.id) if one.id != session.id]
            self._end(connection, others)
            if others:
                self._database.note("session.end", account=account.name, detail=_count(len(others)))
            return len(others)

    def end_all_sessions(self, account: str) -> int:
        """End all sessions and links of an account; return how many sessions there were."""
        with self._database.changing() as connection:
            account_id = read_account(connection, account).id
            ended = len(self.read_sessions(account_id))
            end_sessions(connection, account_id)
            self._database.note("session.end", account=account, detail=_count(ended))
            return ended

    def note_failure(self, account: str | None, how: FailedBy, *, if_known: bool = False) -> None:
        """Note a failure; unknown names are not kept: they may be passwords."""
        is_known = self._database.read_one(_ACCOUNT_ID, (account,)) is not None
        if is_known or not if_known:
            self._database.note(
                "session.fail", account=account if is_known else None, detail=f"by {how}"
            )

    def _set_password(
        self, connection: Connection, account_id: int, account: str, password_hash: str
    ) -> int:
        open_ids = [one.id for one in self.read_sessions(account_id)]
        connection.execute(_SET_HASH, (account_id, password_hash, self._database.clock()))
        end_sessions(connection, account_id)
        self._database.note(
            "account.password", account=account, detail=f"ended {_count(len(open_ids))}"
        )
        return len(open_ids)

    def _open_noted(
        self, connection: Connection, account_id: int, how: OpenedBy, opening: Opening
    ) -> SessionView:
        view = self._open(connection, account_id, how, opening)
        name = view.account.name
        self._database.actor = replace(self._database.actor, name=name)  # it was `nobody` until now
        self._database.note("session.open", account=name, target=view.id, detail=f"by {how}")
        return view

    def _open(
        self,
        connection: Connection,
        account_id: int,
        how: OpenedBy,
        opening: Opening,
        since_ms: int | None = None,
    ) -> SessionView:
        """Open a session: of a sign-in just now, unless `since_ms` says when it was."""
        now_ms = self._database.clock()
        # Swept whenever one is opened, so no task of its own has to do it.
        connection.execute(_SWEEP, {"now": now_ms})
        if opening.replaces is not None:
            self._end(connection, [opening.replaces])
        # Behind the end of the browser's earlier session, which takes no place any more.
        connection.execute(_CROWD_OUT, {"account": account_id, "most": MAX_SESSIONS - 1})
        session: dict[str, Value] = {
            "id": opening.id,
            "account_id": account_id,
            "digest": opening.digest,
            "opened_by": how,
            "device": opening.device,
            "address": opening.address,
            "created_ms": now_ms if since_ms is None else since_ms,
            "last_seen_ms": now_ms,
            "expires_ms": now_ms + SESSION_MS,
        }
        insert(connection, "sessions", session)
        row = connection.execute(_FIND, {"now": now_ms, "digest": opening.digest}).fetchone()
        return _session_view(row)

    def _require_session(self, connection: Connection, account_id: int, session_id: str) -> None:
        found = connection.execute(
            _FIND_ID, {"now": self._database.clock(), "account": account_id, "id": session_id}
        ).fetchone()
        if found is None:
            raise NotFound("there is no such session")

    def _end(self, connection: Connection, session_ids: Iterable[str]) -> None:
        connection.executemany(_END, [(one,) for one in session_ids])


def end_sessions(connection: Connection, account_id: int) -> None:
    """End all sessions of an account, and the link that would open another one."""
    connection.execute("DELETE FROM signin_links WHERE account_id = ?", (account_id,))
    connection.execute(f"{_DELETE} WHERE account_id = ?", (account_id,))


def _count(sessions: int) -> str:
    return f"{sessions} session{'' if sessions == 1 else 's'}"


def _session_view(
    row: tuple[*AccountColumns, str, OpenedBy, str, str, int, int, int],
) -> SessionView:
    created_ms, expires_ms = row[15], row[17]
    owner = view_account(row[:11])
    if owner.operator:
        expires_ms = min(expires_ms, created_ms + OPERATOR_SESSION_MS)
    acting = replace(owner, operator=owner.operator and not owner.suspended)
    return SessionView(row[11], acting, *row[12:17], expires_ms)
