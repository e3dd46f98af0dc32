"""Passwords, one-use sign-in links and sessions of the console, each of one person in an account.

Passwords are stored as hashes, links and sessions by the SHA-256 of their token. Whether a session
is an operator's is read from its account each time, so a change of role counts at once. A session
of a suspended operator counts as a holder's, so that they cannot resume their own account.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Final

from gateway.extras.signins.people import LIVE, PeopleBook, count_sessions
from gateway.extras.signins.records import (
    OPERATOR_SESSION_MS,
    SESSION_MS,
    FailedBy,
    OpenedBy,
    Opening,
    SessionView,
    SignIn,
    StoredPassword,
)
from gateway.ledger.records import Conflict, LedgerError, NotFound
from gateway.ledger.sql.database import (
    ACCOUNT_COLUMNS,
    AccountColumns,
    Database,
    Part,
    Value,
    read_script,
    view_account,
)

SEEN_EVERY_MS: Final = 60_000
"""The precision of a session's last use, in ms: each update is a write."""

MAX_SESSIONS: Final = 100
"""Sessions of a person. One more ends the session that was not used for longest."""

_SQL: Final = read_script(__file__)
_COLUMNS: Final = f"""
    SELECT {ACCOUNT_COLUMNS}, sessions.id, person, opened_by, device, address,
        sessions.created_ms, last_seen_ms, sessions.expires_ms
"""
_ID: Final = "SELECT sessions.id"
_FIND: Final = f"{_COLUMNS} {LIVE} AND digest = :digest"
_FIND_BY_HEADER: Final = (
    f"{_COLUMNS} {LIVE} AND name = :name AND opened_by = 'identity header'"
    " AND address = :address ORDER BY last_seen_ms DESC LIMIT 1"
)
_LIST: Final = (
    f"{_COLUMNS} {LIVE} AND account_id = :account ORDER BY last_seen_ms DESC, sessions.id"
)
_FIND_ID: Final = (
    f"{_ID} {LIVE} AND account_id = :account AND person = :person AND sessions.id = :id"
)
_DELETE: Final = "DELETE FROM sessions"
_END: Final = f"{_DELETE} WHERE id = ?"
_SWEEP: Final = f"{_DELETE} WHERE id NOT IN ({_ID} {LIVE})"
_RENEW_HASH: Final = "UPDATE passwords SET hash = ? WHERE account_id = ? AND person = ?"
_SIGNED_IN: Final = "UPDATE passwords SET signed_in_ms = ? WHERE account_id = ? AND person = ?"


class SignInBook(Part):
    """Passwords as hashes, sign-in links and sessions by the SHA-256 of their token."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._people = PeopleBook(database)

    def set_password(self, account: str, password_hash: str, person: str = "") -> int:
        """Set the password and end all sessions and links of this sign-in; return how many sessions ended.

        A person who is new gets a sign-in. Raises as `set_link` does.
        """
        with self._database.changing():
            signin = self._people.admit(account, person)
            return self._set_password(signin, password_hash)

    def change_password(
        self, session: SessionView, seen_hash: str | None, password_hash: str, opening: Opening
    ) -> SessionView:
        """Set the password for somebody who is signed in and goes on in a new session.

        `seen_hash` is what the current password was checked against. Raises NotFound if the
        session has ended meanwhile, Conflict if the password was changed.
        """
        with self._database.changing():
            # Hashing takes long, so the password was checked outside this transaction.
            self._require_session(session.signin, session.id)
            if self._people.find_hash(session.signin) != seen_hash:
                raise Conflict("the password was changed meanwhile")
            self._set_password(session.signin, password_hash)
            # The new session keeps the time of the sign-in: a fresh one would have asked for a code, too.
            return self._open(session.signin, "password", opening, session.created_ms)

    def set_link(
        self,
        account: str,
        digest: bytes,
        expires_ms: int,
        person: str = "",
        *,
        is_new: bool = False,
    ) -> None:
        """Make a link that signs in as this person; an earlier one of theirs ends.

        `is_new`: the person must have no password yet. Raises Conflict if there is one, or the name
        is an account's; Refused if the account has too many people.
        """
        with self._database.changing():
            signin = self._people.admit(account, person)
            if is_new and self._people.find_hash(signin) is not None:
                raise Conflict(
                    f"'{signin.name}' has a password already; if it is lost, remove the sign-in and"
                    " make it anew",
                    code="name_taken",
                    field="person",
                )
            now_ms = self._database.clock()
            self._database.change(_SQL["set link"], (*signin.key, digest, now_ms, expires_ms))
            self._people.note("account.signin_link", signin)

    def open_by_link(self, digest: bytes, opening: Opening) -> SessionView | None:
        """Use a link up; return None if it is unknown, used or expired."""
        known = self._database.read_one("SELECT 1 FROM signin_links WHERE digest = ?", (digest,))
        if known is None:  # anybody can send a wrong token, so this must not wait for the disk
            return None
        with self._database.changing():
            row = self._database.read_one(_SQL["use link"], (digest,))
            if row is None or row[2] <= self._database.clock():
                return None
            signin = SignIn(row[0], self._database.read_account_name(row[0]), row[1])
            return self._open_noted(signin, "link", opening)

    def open_by_password(
        self, stored: StoredPassword, renewed_hash: str | None, opening: Opening
    ) -> SessionView | None:
        """Open a session; return None if the password that was checked has been changed.

        `renewed_hash` is the same password hashed with the current parameters.
        """
        signin = stored.signin
        with self._database.changing():
            # Hashing takes long: the password may have been changed since it was checked.
            if self._people.find_hash(signin) != stored.hash:
                return None
            if renewed_hash is not None:
                self._database.change(_RENEW_HASH, (renewed_hash, *signin.key))
            return self._open_noted(signin, "password", opening)

    def find_by_header(
        self, account: str, address: str, *, is_use: bool = True
    ) -> SessionView | None:
        """Return the session opened by a trusted proxy's header for this address."""
        named = self._database.name_account(account)
        return self._find(_FIND_BY_HEADER, {"name": named, "address": address}, is_use=is_use)

    def open_by_header(self, account: str, opening: Opening) -> SessionView:
        """Open that session if there is none. Raises NotFound if there is no such account."""
        with self._database.changing():
            # A page asks for several things at once, and the first of them opens it.
            found = self.find_by_header(account, opening.address)
            if found is not None:
                return found
            signin = SignIn(self._database.read_account(account).id, account)
            return self._open_noted(signin, "identity header", opening)

    def find_session(self, digest: bytes, *, is_use: bool = True) -> SessionView | None:
        """Return the session if it has not ended; note that it was used, if this is a use."""
        return self._find(_FIND, {"digest": digest}, is_use=is_use)

    def _find(self, sql: str, where: Mapping[str, Value], *, is_use: bool) -> SessionView | None:
        now_ms = self._database.clock()
        row = self._database.read_one(sql, {"now": now_ms, **where})
        if row is None:
            return None
        view = _session_view(row)
        if is_use and now_ms - view.last_seen_ms >= SEEN_EVERY_MS:
            with suppress(LedgerError):  # a full disk can be read
                self._database.update("sessions", view.id, {"last_seen_ms": now_ms})
        return view

    def read_sessions(self, account_id: int) -> list[SessionView]:
        """Return the sessions of all people that have not ended, the last used first."""
        wanted = {"now": self._database.clock(), "account": account_id}
        return [_session_view(row) for row in self._database.fetch(_LIST, wanted)]

    def read_own_sessions(self, signin: SignIn) -> list[SessionView]:
        return [one for one in self.read_sessions(signin.account_id) if one.signin == signin]

    def end_session(self, signin: SignIn, session_id: str) -> None:
        """End a session. Raises NotFound if it has ended or is another person's."""
        with self._database.changing():
            self._require_session(signin, session_id)
            self._database.change(_END, (session_id,))
            self._database.note("session.end", account=signin.account, target=session_id)

    def end_other_sessions(self, session: SessionView) -> int:
        """End the person's other sessions; return how many there were."""
        with self._database.changing():
            own = self.read_own_sessions(session.signin)
            others = [one.id for one in own if one.id != session.id]
            for other_id in others:
                self._database.change(_END, (other_id,))
            if others:
                self._people.note("session.end", session.signin, count_sessions(len(others)))
            return len(others)

    def end_all_sessions(self, account: str) -> int:
        """End all people's sessions and links; return how many sessions there were."""
        with self._database.changing():
            account_id = self._database.read_account(account).id
            ended = len(self.read_sessions(account_id))
            self.end_all(account_id)
            self._database.note("session.end", account=account, detail=count_sessions(ended))
            return ended

    def end_all(self, account_id: int) -> None:
        """End all sessions of an account, and the links that would open others."""
        for table in ("signin_links", "sessions"):
            self._database.change(f"DELETE FROM {table} WHERE account_id = ?", (account_id,))  # noqa: S608

    def note_failure(self, name: str | None, how: FailedBy, *, if_known: bool = False) -> None:
        """Note a failure; unknown names are not kept: they may be passwords."""
        signin = None if name is None else self._people.find(name)
        if signin is not None:
            self._people.note("session.fail", signin, f"by {how}")
        elif not if_known:
            self._database.note("session.fail", account=None, detail=f"by {how}")

    def _set_password(self, signin: SignIn, password_hash: str) -> int:
        ended, now_ms = len(self.read_own_sessions(signin)), self._database.clock()
        self._database.change(_SQL["set hash"], (*signin.key, password_hash, now_ms, now_ms))
        self._people.delete(signin, "signin_links", "sessions")
        self._people.note("account.password", signin, f"ended {count_sessions(ended)}")
        return ended

    def _open_noted(self, signin: SignIn, how: OpenedBy, opening: Opening) -> SessionView:
        view = self._open(signin, how, opening)
        self._database.change(_SIGNED_IN, (view.created_ms, *signin.key))
        # The actor was `nobody` until now.
        self._database.actor = replace(self._database.actor, name=signin.name)
        self._database.note(
            "session.open", account=signin.account, target=view.id, detail=f"by {how}"
        )
        return view

    def _open(
        self, signin: SignIn, how: OpenedBy, opening: Opening, since_ms: int | None = None
    ) -> SessionView:
        """Open a session whose sign-in was just now, or at `since_ms`."""
        now_ms = self._database.clock()
        # Ended sessions are deleted whenever one is opened, so no task has to do it.
        self._database.change(_SWEEP, {"now": now_ms})
        if opening.replaces is not None:
            self._database.change(_END, (opening.replaces,))
        # After the end of the browser's earlier session, which does not count any more.
        own: dict[str, Value] = {"account": signin.account_id, "person": signin.person}
        self._database.change(_SQL["crowd out"], {**own, "most": MAX_SESSIONS - 1})
        opened = asdict(opening)
        del opened["replaces"]
        session: dict[str, Value] = {
            **opened,
            "account_id": signin.account_id,
            "person": signin.person,
            "opened_by": how,
            "created_ms": now_ms if since_ms is None else since_ms,
            "last_seen_ms": now_ms,
            "expires_ms": now_ms + SESSION_MS,
        }
        self._database.insert("sessions", session)
        row = self._database.read_one(_FIND, {"now": now_ms, "digest": opening.digest})
        return _session_view(row)

    def _require_session(self, signin: SignIn, session_id: str) -> None:
        where: dict[str, Value] = {"account": signin.account_id, "person": signin.person}
        where |= {"now": self._database.clock(), "id": session_id}
        self._database.require_one(_FIND_ID, where, NotFound("there is no such session"))


def _session_view(
    row: tuple[*AccountColumns, str, str, OpenedBy, str, str, int, int, int],
) -> SessionView:
    created_ms, expires_ms = row[16], row[18]
    owner = view_account(row[:11])
    if owner.operator:
        expires_ms = min(expires_ms, created_ms + OPERATOR_SESSION_MS)
    acting = replace(owner, operator=owner.operator and not owner.suspended)
    return SessionView(row[11], acting, *row[12:18], expires_ms)
