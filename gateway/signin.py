"""Signing in to the console: what the CLI and the console do about passwords, links and sessions.

A suspended account may sign in: its holder sees why requests are refused and what was charged.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

from gateway.addresses import make_local_url
from gateway.config import Server
from gateway.ledger.book_signins import Opening
from gateway.ledger.books import Books
from gateway.ledger.records import Refused, SessionView
from gateway.passwords import hash_password
from gateway.times import DAY_MS

MIN_PASSWORD_CHARS: Final = 10
MAX_PASSWORD_BYTES: Final = 1024
LINK_MS: Final = DAY_MS

SESSION_PREFIX: Final = "gws_"
LINK_PREFIX: Final = "gwl_"
"""For those who look for secrets that got somewhere."""

_TOKEN_BYTES: Final = 32
_TOKEN = re.compile(rf"(?:{SESSION_PREFIX}|{LINK_PREFIX})[A-Za-z0-9_-]{{43}}")
_SESSION_ID_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class SigninLink:
    """Works once. The token is in this object and nowhere else."""

    token: str = field(repr=False)
    expires_ms: int

    def url(self, base_url: str) -> str:
        """The token is a fragment: browsers send those to nobody."""
        return f"{base_url}/console/signin#token={self.token}"


@dataclass(frozen=True, slots=True)
class Visitor:
    """Whose browser it is."""

    device: str
    address: str
    session: SessionView | None = None
    """What it has until now."""


@dataclass(frozen=True, slots=True)
class NewSession:
    view: SessionView
    token: str = field(repr=False)
    """For the cookie: shown once, kept nowhere."""


def require_new_password(password: str, field: str = "new_password") -> None:
    """Raises Refused; `field` is what forms call it."""
    if len(password) < MIN_PASSWORD_CHARS:
        text = f"the password must have at least {MIN_PASSWORD_CHARS} characters"
        raise Refused(text, field=field)
    require_password(password, field)


def require_password(password: str, field: str) -> None:
    """Refuse what no password can be. Raises Refused."""
    try:
        size = len(password.encode())
    except UnicodeEncodeError as error:
        raise Refused("the password must be valid UTF-8", field=field) from error
    if size > MAX_PASSWORD_BYTES:
        text = f"the password must have at most {MAX_PASSWORD_BYTES} bytes"
        raise Refused(text, field=field)
    if "\0" in password:
        raise Refused("the password must not have a NUL character in it", field=field)


def set_password(books: Books, account: str, password: str) -> int:
    """Set it, and end all sessions and links of the account; how many sessions those were."""
    books.account(account)
    require_new_password(password)
    return books.set_password(account, hash_password(password))


def change_password(
    books: Books, visitor: Visitor, seen_hash: str | None, password_hash: str
) -> NewSession:
    """Somebody signed in sets a password: all other sessions end, this one gets a new token."""
    assert visitor.session is not None
    token, opening = _prepare(visitor)
    view = books.change_password(visitor.session, seen_hash, password_hash, opening)
    return NewSession(view, token)


def make_signin_link(books: Books, account: str) -> SigninLink:
    """A link that signs in as the account, once, within a day; an earlier one ends."""
    link = SigninLink(_make_token(LINK_PREFIX), books.clock() + LINK_MS)
    books.set_signin_link(account, _digest(link.token), link.expires_ms)
    return link


def open_session_by_link(books: Books, token: str, visitor: Visitor) -> NewSession | None:
    """None when the link is unknown, used or expired."""
    if not _TOKEN.fullmatch(token):
        return None
    session_token, opening = _prepare(visitor)
    view = books.open_by_link(_digest(token), opening)
    return None if view is None else NewSession(view, session_token)


def open_session_by_password(
    books: Books, account: str, seen_hash: str, renewed_hash: str | None, visitor: Visitor
) -> NewSession | None:
    """After the password was found to be right; None when it has been changed since."""
    token, opening = _prepare(visitor)
    view = books.open_by_password(account, seen_hash, renewed_hash, opening)
    return None if view is None else NewSession(view, token)


def find_session(books: Books, token: str) -> SessionView | None:
    """Whose token it is, if the session has not ended."""
    return books.find_session(_digest(token)) if _TOKEN.fullmatch(token) else None


def find_base_url(server: Server, local: tuple[str, int] | None = None) -> str:
    """Where people reach the console: `public_url`, else the address it listens on.

    `local` is that address where it is known; the configuration may leave it to the system.

    Raises:
        Refused: neither is known.
    """
    if server.public_url is not None:
        return server.public_url
    host, port = local or (server.host, server.port)
    if port == 0:
        raise Refused("the port is not known: set public_url under [server] in gateway.toml")
    return make_local_url(host, port)


def _prepare(visitor: Visitor) -> tuple[str, Opening]:
    token = _make_token(SESSION_PREFIX)
    return token, Opening(
        id="ses_" + secrets.token_hex(_SESSION_ID_BYTES),
        digest=_digest(token),
        device=visitor.device,
        address=visitor.address,
        replaces=visitor.session.id if visitor.session else None,
    )


def _make_token(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(_TOKEN_BYTES)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
