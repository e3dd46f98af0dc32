"""The verbs of signing in to the console: passwords, sign-in links and sessions.

A suspended account may sign in, so that its holder sees why requests are refused and what was
charged.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.admin.fields import Fields
from gateway.base.addresses import make_local_url
from gateway.base.ids import digest
from gateway.config.records import Server
from gateway.extras.signins import passwords
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.records import Opening, SessionView, SignInView
from gateway.extras.signins.sessions import SignInBook
from gateway.ledger.records import Refused
from gateway.ledger.sql.books import Books

MIN_PASSWORD_CHARS: Final = 12
"""Characters of a password. The throttle stops guessing; NIST SP 800-63B asks for 8, and OWASP's ASVS
recommends 15."""
MAX_PASSWORD_BYTES: Final = 1024
"""Bytes of a password: a long passphrase. More would only cost time to hash."""
LINK_MS: Final = 30 * 60_000
"""How long a sign-in link can be used: half an hour, as it opens an account by itself."""
FRESH_MS: Final = 10 * 60_000
"""How long after a sign-in a session may let others in: a browser left open must not."""

SESSION_PREFIX: Final = "gws_"
LINK_PREFIX: Final = "gwl_"
"""Prefixes for programs that scan for leaked secrets."""

_TOKEN_BYTES: Final = 32
"""Random bytes of a token, 43 characters. 256 bits cannot be guessed."""
_TOKEN = re.compile(rf"(?:{SESSION_PREFIX}|{LINK_PREFIX})[A-Za-z0-9_-]{{43}}")
_SESSION_ID_BYTES: Final = 8
"""Random bytes of a session's id, which is shown and is no secret."""


SIGNIN: Final = Fields[SignInView](
    "signin.name",
    ("person", lambda one: one.signin.person or None),
    *("created_ms", "signed_in_ms", "totp_ms", "sessions", "link_expires_ms"),
    table=(
        "signin.name",
        ("SINCE UTC", "created_ms"),
        ("LAST SIGN-IN UTC", "signed_in_ms"),
        ("CODES SINCE UTC", "totp_ms"),
        "sessions",
        ("LINK UNTIL UTC", "link_expires_ms"),
    ),
)
"""One of the sign-ins of an account."""


@dataclass(frozen=True, slots=True)
class SigninLink:
    """A link that works once. Only this object contains the token."""

    token: str = field(repr=False)
    expires_ms: int

    def url(self, base_url: str) -> str:
        """Return the URL with the token in its fragment, which browsers do not send."""
        return f"{base_url}/console/signin#token={self.token}"


def require_new_password(password: str, name: str, field: str = "new_password") -> None:
    """Require a password that is hard to guess for a name; `field` is its name in forms. Raises Refused."""
    if len(password) < MIN_PASSWORD_CHARS:
        text = f"the password must have at least {MIN_PASSWORD_CHARS} characters"
        raise Refused(text, field=field)
    require_password(password, field)
    if weakness := passwords.find_weakness(password, name):
        raise Refused(
            f"the password must not be {weakness}; take some words at random", field=field
        )


def require_password(password: str, field: str) -> None:
    """Require text that can be a password. Raises Refused."""
    try:
        size = len(password.encode())
    except UnicodeEncodeError as error:
        raise Refused("the password must be valid UTF-8", field=field) from error
    if size > MAX_PASSWORD_BYTES:
        text = f"the password must have at most {MAX_PASSWORD_BYTES} bytes"
        raise Refused(text, field=field)
    if "\0" in password:
        raise Refused("the password must not have a NUL character in it", field=field)


def set_password(books: Books, account: str, password: str, person: str = "") -> int:
    """Set a person's password and end their sessions and links; return how many sessions.

    Without a person it is the account's own sign-in. A new person gets a sign-in.
    """
    # First: an unknown account must not cost a slow hash.
    own = PeopleBook(books).read(account)
    require_new_password(password, replace(own, person=person).name)
    return SignInBook(books).set_password(account, passwords.hash_password(password), person)


def make_signin_link(
    books: Books, account: str, person: str = "", *, is_new: bool = False
) -> SigninLink:
    """Create a link that signs a person in once within half an hour; an earlier one of theirs ends.

    Without a person it is the account's own sign-in. `is_new`: the person must have no password yet.
    """
    link = SigninLink(_make_token(LINK_PREFIX), books.clock() + LINK_MS)
    SignInBook(books).set_link(account, digest(link.token), link.expires_ms, person, is_new=is_new)
    return link


def prepare_session(device: str, address: str, replaces: str | None = None) -> tuple[str, Opening]:
    """Return the token for a browser's cookie, and the arguments to open its session in the books.

    The token is stored nowhere. `replaces` is the browser's earlier session, which ends.
    """
    token, id_ = _make_token(SESSION_PREFIX), "ses_" + secrets.token_hex(_SESSION_ID_BYTES)
    return token, Opening(id_, digest(token), device, address, replaces)


def open_session_by_link(books: Books, token: str, opening: Opening) -> SessionView | None:
    """Open a session; return None if the link is unknown, used or expired."""
    is_token = _TOKEN.fullmatch(token)
    return SignInBook(books).open_by_link(digest(token), opening) if is_token else None


def find_session(books: Books, token: str, *, is_use: bool = True) -> SessionView | None:
    """Return the session of a token, or None if it has ended."""
    if not _TOKEN.fullmatch(token):
        return None
    return SignInBook(books).find_session(digest(token), is_use=is_use)


class NotFresh(Refused):
    """The sign-in was too long ago."""

    def __init__(self) -> None:
        text = (
            "You signed in more than 10 minutes ago. Sign in again for this, by password or by a new"
            " sign-in link."
        )
        super().__init__(text, code="sign_in_again")


def require_fresh(session: SessionView, now_ms: int) -> None:
    """Require that somebody has just signed in, not left a browser open. Raises NotFresh.

    Only a new sign-in, which replaces the session, makes it fresh.
    """
    if not is_fresh(session, now_ms):
        raise NotFresh


def is_fresh(session: SessionView, now_ms: int) -> bool:
    """Return whether its holder has just signed in. A proxy has its own rules: its sessions are fresh."""
    return session.by_proxy or abs(now_ms - session.created_ms) <= FRESH_MS


def find_base_url(server: Server, local: tuple[str, int] | None = None) -> str:
    """Return `public_url`, or else the address that the console listens on.

    `local` is that address if it is known: the configuration may leave the port to the system.

    Raises:
        Refused: neither is known.
    """
    if server.public_url is not None:
        return server.public_url
    host, port = local or (server.host, server.port)
    if port == 0:
        raise Refused("the port is not known: set public_url under [server] in gateway.toml")
    return make_local_url(host, port)


def _make_token(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(_TOKEN_BYTES)
