"""The people who may sign in to an account: its own sign-in, and those that have a name in it.

Each person has a password, one-time codes, a link and sessions apart from the others'. A person with
a name begins with a link, which an operator or the account's own sign-in makes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from gateway.base.times import DAY_MS
from gateway.extras.signins.records import (
    OPERATOR_SESSION_MS,
    PERSON_MARK,
    SignIn,
    SignInView,
    StoredPassword,
)
from gateway.ledger.checks import require_name
from gateway.ledger.records import Conflict, NotFound, Refused
from gateway.ledger.sql.database import Part

OPERATOR_IDLE_MS: Final = 30 * 60_000
"""An operator's session ends when it was not used for this time: it can spend others' money."""
HOLDER_IDLE_MS: Final = 7 * DAY_MS
"""A holder's session ends when it was not used for this time: they look in once a week."""
MAX_PEOPLE: Final = 50
"""People with a name in an account: holders invite them, and each leaves rows."""

LIVE: Final = f"""
    FROM sessions JOIN accounts ON accounts.id = sessions.account_id
    WHERE sessions.expires_ms > :now AND CASE accounts.operator
        WHEN 1 THEN sessions.last_seen_ms + {OPERATOR_IDLE_MS} > :now
            AND sessions.created_ms + {OPERATOR_SESSION_MS} > :now
        ELSE sessions.last_seen_ms + {HOLDER_IDLE_MS} > :now END
"""
"""Sessions that have not ended."""

_ACCOUNT_ID: Final = "SELECT id FROM accounts WHERE name = ?"
_KNOWN: Final = (
    "SELECT DISTINCT account_id FROM passwords"
    " WHERE account_id IN (SELECT CAST(value AS BIGINT) FROM json_each(:ids))"
)
_HASH: Final = "SELECT hash FROM passwords WHERE account_id = ? AND person = ?"
_SWEEP_LINKS: Final = "DELETE FROM signin_links WHERE account_id = ? AND expires_ms <= ?"
_PASSWORDS: Final = (
    "SELECT person, created_ms, signed_in_ms FROM passwords WHERE account_id = :account"
)
_CONFIRMED: Final = "SELECT person, confirmed_ms FROM totp WHERE account_id = :account"
_LINKS: Final = (
    "SELECT person, expires_ms FROM signin_links WHERE account_id = :account AND expires_ms > :now"
)
_SESSIONS: Final = (
    f"SELECT person, count(*), max(sessions.created_ms) {LIVE}"
    " AND account_id = :account GROUP BY person"
)

_TABLES: Final = ("signin_links", "sessions", "recovery_codes", "totp", "passwords")


class PeopleBook(Part):
    def read(self, account: str, person: str = "") -> SignIn:
        """Return an existing sign-in, with or without a password. Raises NotFound."""
        return self._read_view(account, person).signin

    def read_all(self, account: str) -> list[SignInView]:
        """Return the sign-ins of an account: its own first, then those of people by their names."""
        with self._database.snapshot():
            account_id = self._database.read_account(account).id
            return list(self._read_views(account_id, account).values())

    def find(self, name: str) -> SignIn | None:
        """Return the sign-in that a typed name such as `alice/dana` means, with or without a password."""
        for signin in self._find_meant(name):
            # An account's own sign-in needs no query: known names take no longer than unknown ones.
            people = self._read_views(signin.account_id, signin.account) if signin.person else {""}
            if signin.person in people:
                return signin
        return None

    def find_password(self, name: str) -> StoredPassword | None:
        """Return the password for the name that somebody types; None if there is none."""
        for signin in self._find_meant(name):
            if (found := self.find_hash(signin)) is not None:
                return StoredPassword(signin, found)
        return None

    def find_with_password(self, account_ids: Sequence[int]) -> set[int]:
        """Return those of the accounts for which a password is set, a person's or the account's own."""
        ids = orjson.dumps(account_ids).decode()
        return {account_id for (account_id,) in self._database.fetch(_KNOWN, {"ids": ids})}

    def find_hash(self, signin: SignIn) -> str | None:
        """Return the hash of the password; None if there is none."""
        row = self._database.read_one(_HASH, signin.key)
        return None if row is None else str(row[0])

    def remove(self, account: str, person: str) -> int:
        """Remove a person's password, codes, link and sessions; return how many sessions.

        Raises NotFound if there is no such person, Refused for the account's own sign-in.
        """
        if not person:
            raise Refused("the account's own sign-in stays; name a person", field="person")
        with self._database.changing():
            view = self._read_view(account, person)
            self.delete(view.signin, *_TABLES)
            detail = f"ended {count_sessions(view.sessions)}"
            self.note("account.signin_remove", view.signin, detail)
            return view.sessions

    def admit(self, account: str, person: str) -> SignIn:
        """Return the sign-in of somebody who may be new. Raises NotFound, Refused and Conflict."""
        composed = unicodedata.normalize("NFC", person)
        signin = SignIn(self._database.read_account(account).id, account, composed)
        if not person:
            return signin
        require_name("the person's name", person, "person")
        if PERSON_MARK in person:
            raise Refused(f"the person's name must not have a {PERSON_MARK} in it", field="person")
        if self._database.read_one(_ACCOUNT_ID, (self._database.name_account(signin.name),)):
            raise Conflict(
                f"there is an account '{signin.name}'; take another name for the person",
                code="name_taken",
                field="person",
            )
        # Swept here, so that links for ever new names leave no rows.
        self._database.change(_SWEEP_LINKS, (signin.account_id, self._database.clock()))
        people = self._read_views(signin.account_id, account)
        if composed not in people and len(people) > MAX_PEOPLE:  # one is the account's own
            raise Refused(
                f"account '{account}' has {MAX_PEOPLE} people already; remove one first",
                field="person",
            )
        return signin

    def require_free_name(self, name: str) -> None:
        """Require that no person signs in by a new account's name: a name is one sign-in. Raises Conflict."""
        signin = self.find(name)
        if signin is not None and signin.person:
            raise Conflict(
                f"'{name}' signs in to account '{signin.account}'; take another name",
                code="name_taken",
                field="name",
            )

    def delete(self, signin: SignIn, *tables: str) -> int:
        """Delete the rows of a sign-in; return how many there were."""
        where = "WHERE account_id = ? AND person = ?"
        return sum(
            self._database.change(f"DELETE FROM {table} {where}", signin.key)  # noqa: S608
            for table in tables
        )

    def note(self, action: str, signin: SignIn, detail: str = "") -> None:
        """Note an event about a sign-in; its target is the person, if it is not the account's own."""
        target = signin.person or None
        self._database.note(action, account=signin.account, target=target, detail=detail)

    def _find_meant(self, name: str) -> Iterator[SignIn]:
        """Yield the sign-ins in existing accounts that a name may mean.

        An account's name may contain the mark, a person's name cannot. An account and a person never get the
        same name, so only one of the two exists.
        """
        account, _, person = name.rpartition(PERSON_MARK)
        # People of earlier versions may have another form of Unicode than NFC.
        people = dict.fromkeys((person, unicodedata.normalize("NFC", person)))
        # `alice/` is no way to write `alice`: tries at both would be counted apart.
        for meant in ((name, ""), *((account, one) for one in people if one)):
            named = self._database.name_account(meant[0])
            row = self._database.read_one(_ACCOUNT_ID, (named,))
            if row is not None:
                yield SignIn(row[0], named, meant[1])

    def _read_view(self, account: str, person: str) -> SignInView:
        people = self._read_views(self._database.read_account(account).id, account)
        if person not in people:
            raise NotFound(f"account '{account}' has no sign-in for '{person}'")
        return people[person]

    def _read_views(self, account_id: int, account: str) -> dict[str, SignInView]:
        """Return the account's own sign-in, then those with a password, a link or a session, by name."""
        where = {"account": account_id, "now": self._database.clock()}

        def read(sql: str) -> dict[str, list[int]]:
            return {person: found for person, *found in self._database.fetch(sql, where)}

        passwords, totp, links, sessions = map(read, (_PASSWORDS, _CONFIRMED, _LINKS, _SESSIONS))
        people = {}
        for person in sorted({"", *passwords, *links, *sessions}):
            created_ms, signed_in_ms = passwords.get(person, (None, None))
            opened, opened_ms = sessions.get(person, (0, None))
            people[person] = SignInView(
                SignIn(account_id, account, person),
                created_ms=created_ms,
                signed_in_ms=signed_in_ms or opened_ms,
                totp_ms=totp.get(person, [None])[0],
                sessions=opened,
                link_expires_ms=links.get(person, [None])[0],
            )
        return people


def count_sessions(sessions: int) -> str:
    return f"{sessions} session{'' if sessions == 1 else 's'}"
