"""Records of who may sign in: people and their sessions, links and one-time codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.base.times import DAY_MS, HOUR_MS
from gateway.ledger.records import AccountView

SESSION_MS: Final = 30 * DAY_MS
"""The longest a holder's session can last, however often it is used: a month."""
OPERATOR_SESSION_MS: Final = 12 * HOUR_MS
"""The longest an operator's session can last: a working day, as in NIST SP 800-63B-4 for AAL2."""

OpenedBy = Literal["password", "link", "identity header"]
FailedBy = OpenedBy | Literal["token", "code"]

PERSON_MARK: Final = "/"
"""Separates an account from the name of a person in it. That name must not contain it."""


@dataclass(frozen=True, slots=True)
class SignIn:
    """One of the ways into an account, with a password, one-time codes and sessions of its own."""

    account_id: int
    account: str
    person: str = ""
    """The person's name in the account; empty for the account's own sign-in."""

    @property
    def key(self) -> tuple[int, str]:
        """Return the values of the columns by which its rows are found."""
        return self.account_id, self.person

    @property
    def name(self) -> str:
        """Return the name to sign in with, by which events name who acted: `alice` or `alice/dana`."""
        return f"{self.account}{PERSON_MARK}{self.person}" if self.person else self.account


@dataclass(frozen=True, slots=True)
class StoredPassword:
    signin: SignIn
    hash: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SignInView:
    """A sign-in of an account, as lists show it."""

    signin: SignIn
    created_ms: int | None
    """When its password was set first; None without a password."""
    signed_in_ms: int | None
    """The last time that they signed in."""
    totp_ms: int | None
    """Since when one-time codes are asked for."""
    sessions: int
    link_expires_ms: int | None
    """The time at which an unused link ends."""


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session in the console; only the browser knows its token."""

    id: str
    account: AccountView
    person: str
    """As in `SignIn`."""
    opened_by: OpenedBy
    device: str
    """For example `Firefox on Linux`."""
    address: str
    created_ms: int
    last_seen_ms: int
    expires_ms: int

    @property
    def signin(self) -> SignIn:
        return SignIn(self.account.id, self.account.name, self.person)

    @property
    def by_proxy(self) -> bool:
        """Return whether a proxy vouches for it: it has no cookie, and signing out here would not end it."""
        return self.opened_by == "identity header"


@dataclass(frozen=True, slots=True)
class Opening:
    """A session about to be opened, apart from its account."""

    id: str
    digest: bytes = field(repr=False)
    device: str
    address: str
    replaces: str | None = None
    """The browser's earlier session, which ends."""


@dataclass(frozen=True, slots=True)
class TotpView:
    """The one-time codes of a sign-in."""

    secret: bytes = field(repr=False)
    last_step: int
    """The time step of the last code that was accepted."""
    confirmed_ms: int | None
    """Since when sign-ins ask for codes; None during the set-up."""
    recovery_codes: int
    """The number that is left."""
