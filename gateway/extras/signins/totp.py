"""One-time codes (TOTP, RFC 6238) that are asked for beside a password, and recovery codes for lost apps.

Keys of apps are kept in the clear, recovery codes by their SHA-256. What works once is compared and
marked in one statement, so that of two requests with the same code only one succeeds.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import quote, urlencode

from gateway.extras.signins import typed
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.records import SignIn, TotpView
from gateway.ledger.records import Conflict, NotFound
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Database, Part, read_script

_SQL: Final = read_script(__file__)
_USE_CODE: Final = "DELETE FROM recovery_codes WHERE account_id = ? AND person = ? AND digest = ?"
_ADD_CODE: Final = "INSERT INTO recovery_codes (account_id, person, digest) VALUES (?, ?, ?)"


class TotpBook(Part):
    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._people = PeopleBook(database)

    def read(self, signin: SignIn) -> TotpView | None:
        row = self._database.read_one(_SQL["totp"], signin.key)
        return None if row is None else TotpView(bytes(row[0]), *row[1:])

    def propose(self, signin: SignIn, secret: bytes) -> None:
        """Keep a key for a set-up, in place of an earlier one.

        Raises Conflict after a set-up, and for a person who has a name but no password.
        """
        with self._database.changing():
            if signin.person and self._people.find_hash(signin) is None:
                raise Conflict("one-time codes are asked for beside a password; set one first")
            row = (*signin.key, secret, self._database.clock())
            if not self._database.change(_SQL["propose"], row):
                raise Conflict("one-time codes are set up already; remove them first")

    def confirm(self, signin: SignIn, secret: bytes, step: int, digests: Sequence[bytes]) -> None:
        """End the set-up, by the code of a step: codes are asked for from now on.

        `digests` are those of the recovery codes. Raises Conflict if that key is not proposed.
        """
        with self._database.changing():
            row = (self._database.clock(), step, *signin.key, secret)
            if not self._database.change(_SQL["confirm"], row):
                raise Conflict("the set-up was begun anew meanwhile, or has been finished")
            for digest in digests:
                self._database.change(_ADD_CODE, (*signin.key, digest))
            self._people.note("account.totp", signin, "set up")

    def use_step(self, signin: SignIn, step: int) -> bool:
        """Use a time step up; return False if it, or a later one, was used before."""
        return bool(self._database.change(_SQL["use step"], (step, *signin.key, step)))

    def use_recovery_code(self, signin: SignIn, digest: bytes) -> bool:
        """Use a recovery code up; return False if there is none."""
        with self._database.changing():
            if not self._database.change(_USE_CODE, (*signin.key, digest)):
                return False
            self._people.note("account.recovery_code", signin)
            return True

    def remove(self, signin: SignIn) -> None:
        """Stop asking for codes. Raises NotFound if there is no set-up."""
        with self._database.changing():
            if not self._people.delete(signin, "recovery_codes", "totp"):
                raise NotFound(f"account '{signin.name}' has no one-time codes")
            self._people.note("account.totp", signin, "removed")


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


def begin(books: Books, own: SignIn, issuer: str) -> SetUp:
    """Begin a set-up anew; `issuer` is the site's name in the app. Raises Conflict after a set-up."""
    key = secrets.token_bytes(SECRET_BYTES)
    TotpBook(books).propose(own, key)
    secret = base64.b32encode(key).decode()
    label = f"{quote(issuer, safe='')}:{quote(own.name, safe='')}"
    query = urlencode({"secret": secret, "issuer": issuer}, quote_via=quote)
    return SetUp(secret, f"otpauth://totp/{label}?{query}")


def finish(books: Books, own: SignIn, code: str) -> tuple[str, ...] | None:
    """End the set-up by a code; return the recovery codes, or None if the code is wrong.

    Only the returned value has the recovery codes. Raises Conflict without a set-up.
    """
    view = TotpBook(books).read(own)
    if view is None or view.confirmed_ms is not None:
        raise Conflict("there is no set-up that could be finished; begin anew")
    step = _find_step(view, _SPACES.sub("", code), books.clock())
    if step is None:
        return None
    made = tuple(typed.make_code(RECOVERY_GROUPS) for _ in range(RECOVERY_CODES))
    # With its step, so that the code that was just typed signs nobody in.
    TotpBook(books).confirm(own, view.secret, step, [typed.digest_code(one) for one in made])
    return made


def check(books: Books, own: SignIn, code: str | None) -> Check:
    """Check a one-time code or a recovery code and use it up. Without a set-up any or no code is right."""
    view = TotpBook(books).read(own)
    if view is None or view.confirmed_ms is None:
        return "right"
    text = _SPACES.sub("", code or "")
    if not text:
        return "missing"
    if _CODE.fullmatch(text):
        step = _find_step(view, text, books.clock())
        is_right = step is not None and TotpBook(books).use_step(own, step)
    else:
        read = typed.read_code(text, RECOVERY_GROUPS)
        is_right = read is not None and TotpBook(books).use_recovery_code(
            own, typed.digest_code(read)
        )
    return "right" if is_right else "wrong"


def compute_code(secret: bytes, step: int) -> str:
    """Return the code of a time step (RFC 4226, 5.3)."""
    # RFC 4226 names SHA-1, and most apps know no other hash.
    hashed = hmac.digest(secret, step.to_bytes(8, "big"), "sha1")
    offset = hashed[-1] & 0x0F
    number = int.from_bytes(hashed[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"


def _find_step(view: TotpView, code: str, now_ms: int) -> int | None:
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
