"""Who may sign in to the console, and who is signed in: passwords, one-use links, sessions.

Of passwords a hash is kept, of links and sessions the SHA-256 of their token. Whether a session is
an operator's is read from its account each time, so a change of role counts at once. While it is
suspended it is a holder's: an operator who is shut out must not let themselves in again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from gateway.ledger import reports
from gateway.ledger.base import LedgerError
from gateway.ledger.book import Book
from gateway.ledger.records import AccountView, Conflict, NotFound, SessionView
from gateway.times import DAY_MS

OPERATOR_IDLE_MS: Final = 30 * 60_000
HOLDER_IDLE_MS: Final = 7 * DAY_MS
SESSION_MS: Final = 30 * DAY_MS
SEEN_EVERY_MS: Final = 60_000
"""How exactly it is known when a session was last used: each time is a write."""

MAX_SESSIONS: Final = 100
"""Of one account; a new one beyond ends the one that was not used for longest."""

_LIVE: Final = f"""
    FROM sessions JOIN accounts ON accounts.id = sessions.account_id
    WHERE sessions.expires_ms > :now AND sessions.last_seen_ms
        + iif(accounts.operator, {OPERATOR_IDLE_MS}, {HOLDER_IDLE_MS}) > :now
"""
_COLUMNS: Final = f"""
    SELECT {reports.ACCOUNT_COLUMNS}, sessions.id, opened_by, device, address,
        sessions.created_ms, last_seen_ms, sessions.expires_ms
"""
_ID: Final = "SELECT sessions.id"
_FIND: Final = f"{_COLUMNS} {_LIVE} AND digest = :digest"
_LIST: Final = (
    f"{_COLUMNS} {_LIVE} AND account_id = :account ORDER BY last_seen_ms DESC, sessions.id"
)
_FIND_ID: Final = f"{_ID} {_LIVE} AND account_id = :account AND sessions.id = :id"
_DELETE: Final = "DELETE FROM sessions"
_END: Final = f"{_DELETE} WHERE id = ?"
_SWEEP: Final = f"{_DELETE} WHERE id NOT IN ({_ID} {_LIVE})"
_CROWD_OUT: Final = """
    DELETE FROM sessions WHERE account_id = :account AND id NOT IN (
        SELECT id FROM sessions WHERE account_id = :account
        ORDER BY last_seen_ms DESC, created_ms DESC, id LIMIT :most
    )
"""
_OPEN: Final = (
    "INSERT INTO sessions (id, account_id, digest, opened_by, device, address, created_ms,"
    " last_seen_ms, expires_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_SET_LINK: Final = (
    "INSERT INTO signin_links (account_id, digest, created_ms, expires_ms) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (account_id) DO UPDATE SET digest = excluded.digest,"
    " created_ms = excluded.created_ms, expires_ms = excluded.expires_ms"
)
_SET_HASH: Final = (
    "INSERT INTO passwords (account_id, hash, changed_ms) VALUES (?, ?, ?)"
    " ON CONFLICT (account_id) DO UPDATE SET hash = excluded.hash, changed_ms = excluded.changed_ms"
)

OpenedBy = Literal["password", "link"]


@dataclass(frozen=True, slots=True)
class Opening:
    """A session about to be opened: what is known of it beside its account."""

    id: str
    digest: bytes = field(repr=False)
    device: str
    address: str
    replaces: str | None = None
    """The session that this browser had until now: it ends."""


class SignInBook(Book):
    def find_password_hash(self, account: str) -> str | None:
        """None: no such account, or it has no password."""
        with self.reading() as connection:
            row = connection.execute(
                "SELECT hash FROM passwords JOIN accounts ON accounts.id = account_id"
                " WHERE name = ?",
                (account,),
            ).fetchone()
        return None if row is None else str(row[0])

    def set_password(self, account: str, password_hash: str) -> int:
        """All sessions and links of the account end; how many sessions those were."""
        with self.changing() as connection:
            account_id = reports.read_account(connection, account).id
            return self._set_password(connection, account_id, account, password_hash)

    def change_password(
        self, session: SessionView, seen_hash: str | None, password_hash: str, opening: Opening
    ) -> SessionView:
        """As `set_password`, by somebody signed in, who goes on in a new session.

        `seen_hash` is what the current password was checked against.

        Raises:
            NotFound: the session has ended meanwhile.
            Conflict: the password was changed meanwhile.
        """
        account = session.account
        with self.changing() as connection:
            self._require_session(connection, account.id, session.id)
            if self.find_password_hash(account.name) != seen_hash:
                raise Conflict("the password was changed meanwhile")
            self._set_password(connection, account.id, account.name, password_hash)
            return self._open(connection, account.id, "password", opening)

    def set_signin_link(self, account: str, digest: bytes, expires_ms: int) -> None:
        """From now on the account's only one."""
        with self.changing() as connection:
            account_id = reports.read_account(connection, account).id
            connection.execute(_SET_LINK, (account_id, digest, self.clock(), expires_ms))
            self.note("account.signin_link", account=account)

    def open_by_link(self, digest: bytes, opening: Opening) -> SessionView | None:
        """Use the link up; None when it is unknown, used or expired."""
        with self.changing() as connection:
            row = connection.execute(
                "DELETE FROM signin_links WHERE digest = ? RETURNING account_id, expires_ms",
                (digest,),
            ).fetchone()
            if row is None or row[1] <= self.clock():
                return None
            return self._open_noted(connection, row[0], "link", opening)

    def open_by_password(
        self, account: str, seen_hash: str, renewed_hash: str | None, opening: Opening
    ) -> SessionView | None:
        """None when the password that was checked has been changed since.

        `renewed_hash` is of the same password, with the parameters of today.
        """
        with self.changing() as connection:
            if self.find_password_hash(account) != seen_hash:
                return None
            (account_id,) = connection.execute(
                "SELECT id FROM accounts WHERE name = ?", (account,)
            ).fetchone()
            if renewed_hash is not None:
                connection.execute(
                    "UPDATE passwords SET hash = ? WHERE account_id = ?", (renewed_hash, account_id)
                )
            return self._open_noted(connection, account_id, "password", opening)

    def find_session(self, digest: bytes) -> SessionView | None:
        """A session that has not ended, and now was used."""
        now_ms = self.clock()
        with self.reading() as connection:
            row = connection.execute(_FIND, {"now": now_ms, "digest": digest}).fetchone()
        if row is None:
            return None
        view = _session_view(row)
        if now_ms - view.last_seen_ms >= SEEN_EVERY_MS:
            with suppress(LedgerError), self.changing() as connection:  # a full disk can be read
                connection.execute(
                    "UPDATE sessions SET last_seen_ms = ? WHERE id = ?", (now_ms, view.id)
                )
        return view

    def sessions(self, account_id: int) -> list[SessionView]:
        """Those that have not ended, the last used first."""
        with self.reading() as connection:
            rows = connection.execute(
                _LIST,
                {"now": self.clock(), "account": account_id},
            )
            return [_session_view(row) for row in rows]

    def end_session(self, account: AccountView, session_id: str) -> None:
        """Raises NotFound: it has ended, or is another account's."""
        with self.changing() as connection:
            self._require_session(connection, account.id, session_id)
            connection.execute(_END, (session_id,))
            self.note("session.end", account=account.name, target=session_id)

    def end_other_sessions(self, session: SessionView) -> int:
        """How many they were."""
        account = session.account
        with self.changing() as connection:
            others = [one.id for one in self.sessions(account.id) if one.id != session.id]
            self._end(connection, others)
            if others:
                self.note("session.end", account=account.name, detail=_count(len(others)))
            return len(others)

    def note_failed_signin(self, account: str | None, how: OpenedBy) -> None:
        """Of an account that is there; a name that is not may be somebody's password."""
        with self.changing() as connection:
            known = connection.execute(
                "SELECT name FROM accounts WHERE name = ?", (account,)
            ).fetchone()
            self.note("session.fail", account=known and known[0], detail=f"by {how}")

    def _set_password(
        self, connection: sqlite3.Connection, account_id: int, account: str, password_hash: str
    ) -> int:
        open_ids = [one.id for one in self.sessions(account_id)]
        connection.execute(_SET_HASH, (account_id, password_hash, self.clock()))
        connection.execute("DELETE FROM signin_links WHERE account_id = ?", (account_id,))
        connection.execute("DELETE FROM sessions WHERE account_id = ?", (account_id,))
        self.note("account.password", account=account, detail=f"ended {_count(len(open_ids))}")
        return len(open_ids)

    def _open_noted(
        self, connection: sqlite3.Connection, account_id: int, how: OpenedBy, opening: Opening
    ) -> SessionView:
        view = self._open(connection, account_id, how, opening)
        name = view.account.name
        self.actor = replace(self.actor, name=name)  # nobody until now
        self.note("session.open", account=name, target=view.id, detail=f"by {how}")
        return view

    def _open(
        self, connection: sqlite3.Connection, account_id: int, how: OpenedBy, opening: Opening
    ) -> SessionView:
        now_ms = self.clock()
        connection.execute(_SWEEP, {"now": now_ms})
        if opening.replaces is not None:
            self._end(connection, [opening.replaces])
        connection.execute(_CROWD_OUT, {"account": account_id, "most": MAX_SESSIONS - 1})
        connection.execute(
            _OPEN,
            (
                opening.id,
                account_id,
                opening.digest,
                how,
                opening.device,
                opening.address,
                now_ms,
                now_ms,
                now_ms + SESSION_MS,
            ),
        )
        row = connection.execute(_FIND, {"now": now_ms, "digest": opening.digest}).fetchone()
        return _session_view(row)

    def _require_session(
        self, connection: sqlite3.Connection, account_id: int, session_id: str
    ) -> None:
        found = connection.execute(
            _FIND_ID,
            {"now": self.clock(), "account": account_id, "id": session_id},
        ).fetchone()
        if found is None:
            raise NotFound("there is no such session")

    def _end(self, connection: sqlite3.Connection, session_ids: Iterable[str]) -> None:
        connection.executemany(_END, [(one,) for one in session_ids])


def _count(sessions: int) -> str:
    return f"{sessions} session{'' if sessions == 1 else 's'}"


def _session_view(row: tuple[Any, ...]) -> SessionView:
    *account, session_id, opened_by, device, address, created_ms, seen_ms, expires_ms = row
    owner = reports.view_account(account)
    return SessionView(
        session_id,
        replace(owner, operator=owner.operator and not owner.suspended),
        opened_by,
        device,
        address,
        created_ms,
        seen_ms,
        expires_ms,
    )
