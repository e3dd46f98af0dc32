"""The verbs of signing in to the console: passwords, sign-in links and sessions.

A suspended account may sign in, so that its holder sees why requests are refused and what was
charged.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from dataclasses import dataclass, field, replace
from typing import Final, Literal
from urllib.parse import quote, urlencode

from gateway.addresses import make_local_url
from gateway.admin import keys
from gateway.admin.fields import Fields
from gateway.config.records import Server
from gateway.extras.console import passwords
from gateway.ids import digest
from gateway.ledger import signin_records
from gateway.ledger.records import Conflict, Refused
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


SIGNIN: Final = Fields[signin_records.SignInView](
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
    """Require a password for who signs in by this name; `field` is its name in forms. Raises Refused."""
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

    Without a person it is the account's own sign-in; one that is new is made.
    """
    # First: an unknown account must not cost a slow hash.
    own = books.people.read(account)
    require_new_password(password, replace(own, person=person).name)
    return books.signins.set_password(account, passwords.hash_password(password), person)


def make_signin_link(
    books: Books, account: str, person: str = "", *, is_new: bool = False
) -> SigninLink:
    """Create a link that signs a person in once within half an hour; an earlier one of theirs ends.

    Without a person it is the account's own sign-in. `is_new`: the person must have no password yet.
    """
    link = SigninLink(_make_token(LINK_PREFIX), books.clock() + LINK_MS)
    books.signins.set_link(account, digest(link.token), link.expires_ms, person, is_new=is_new)
    return link


def prepare_session(
    device: str, address: str, replaces: str | None = None
) -> tuple[str, signin_records.Opening]:
    """Return the token for a browser's cookie, and the arguments to open its session in the books.

    The token is stored nowhere. `replaces` is the browser's earlier session, which ends.
    """
    token, id_ = _make_token(SESSION_PREFIX), "ses_" + secrets.token_hex(_SESSION_ID_BYTES)
    return token, signin_records.Opening(id_, digest(token), device, address, replaces)


def open_session_by_link(
    books: Books, token: str, opening: signin_records.Opening
) -> signin_records.SessionView | None:
    """Open a session; return None if the link is unknown, used or expired."""
    is_token = _TOKEN.fullmatch(token)
    return books.signins.open_by_link(digest(token), opening) if is_token else None


def find_session(books: Books, token: str) -> signin_records.SessionView | None:
    """Return the session of a token, or None if it has ended."""
    return books.signins.find_session(digest(token)) if _TOKEN.fullmatch(token) else None


def is_fresh(session: signin_records.SessionView, now_ms: int) -> bool:
    """Return whether its holder has just signed in, or a proxy, which has rules of its own, says so."""
    return session.by_proxy or now_ms - session.created_ms <= FRESH_MS


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


STEP_MS: Final = 30_000
"""The time of a code in ms: what apps expect, and what RFC 6238 (5.2) recommends."""
DRIFT_STEPS: Final = 1
"""Steps by which an app's clock may be off; RFC 6238 (5.2) allows one for the transmission."""
DIGITS: Final = 6
"""Digits of a code: what apps expect. The throttle stops guessing."""
SECRET_BYTES: Final = 20
"""Random bytes of a key: 160 bits, as RFC 4226 (4, R6) recommends."""
RECOVERY_CODES: Final = 10
"""Recovery codes of a set-up: some for years, on one sheet of paper."""
RECOVERY_GROUPS: Final = 6
"""Groups of a recovery code, with 120 random bits: a plain hash keeps what has 112 (ASVS 6.5.2)."""

_CODE: Final = re.compile(rf"[0-9]{{{DIGITS}}}")
_SPACES: Final = re.compile(r"\s")

Check = Literal["right", "wrong", "missing"]


@dataclass(frozen=True, slots=True)
class SetUp:
    """The key for an authenticator app. It is shown until the first code was typed."""

    secret: str = field(repr=False)
    """The key in base32, to be typed."""
    url: str = field(repr=False)
    """The same as a link for apps."""


def begin(books: Books, own: signin_records.SignIn, issuer: str) -> SetUp:
    """Begin a set-up anew; `issuer` is the site's name in the app. Raises Conflict after a set-up."""
    key = secrets.token_bytes(SECRET_BYTES)
    books.totp.propose(own, key)
    secret = base64.b32encode(key).decode()
    label = f"{quote(issuer, safe='')}:{quote(own.name, safe='')}"
    query = urlencode({"secret": secret, "issuer": issuer}, quote_via=quote)
    return SetUp(secret, f"otpauth://totp/{label}?{query}")


def finish(books: Books, own: signin_records.SignIn, code: str) -> tuple[str, ...] | None:
    """End the set-up by a code; return the recovery codes, or None if the code is wrong.

    Only the returned value has the recovery codes. Raises Conflict without a set-up.
    """
    view = books.totp.read(own)
    if view is None or view.confirmed_ms is not None:
        raise Conflict("there is no set-up that could be finished; begin anew")
    step = _find_step(view, _SPACES.sub("", code), books.clock())
    if step is None:
        return None
    made = tuple(keys.make_code(RECOVERY_GROUPS) for _ in range(RECOVERY_CODES))
    # With its step, so that the code that was just typed signs nobody in.
    books.totp.confirm(own, view.secret, step, [keys.digest_code(one) for one in made])
    return made


def check(books: Books, own: signin_records.SignIn, code: str | None) -> Check:
    """Check a one-time code or a recovery code and use it up; without a set-up anything is right."""
    view = books.totp.read(own)
    if view is None or view.confirmed_ms is None:
        return "right"
    text = _SPACES.sub("", code or "")
    if not text:
        return "missing"
    if _CODE.fullmatch(text):
        step = _find_step(view, text, books.clock())
        is_right = step is not None and books.totp.use_step(own, step)
    else:
        read = keys.read_code(text, RECOVERY_GROUPS)
        is_right = read is not None and books.totp.use_recovery_code(own, keys.digest_code(read))
    return "right" if is_right else "wrong"


def compute_code(secret: bytes, step: int) -> str:
    """Return the code of a time step (RFC 4226, 5.3)."""
    # RFC 4226 names SHA-1, and most apps know no other hash.
    hashed = hmac.digest(secret, step.to_bytes(8, "big"), "sha1")
    offset = hashed[-1] & 0x0F
    number = int.from_bytes(hashed[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"


def _find_step(view: signin_records.TotpView, code: str, now_ms: int) -> int | None:
    """Return the first step that has this code, among those that are due and were not used."""
    now = now_ms // STEP_MS
    # Only steps after the last used one: a code that somebody saw works only once.
    steps = range(max(now - DRIFT_STEPS, view.last_step + 1), now + DRIFT_STEPS + 1)
    # Bytes: compare_digest refuses texts that are not ASCII, and what is typed may be anything.
    text = code.encode("utf-8", "replace")
    found = [
        one for one in steps if hmac.compare_digest(compute_code(view.secret, one).encode(), text)
    ]
    return found[0] if found else None
