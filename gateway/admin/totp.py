"""One-time codes from an authenticator app (TOTP, RFC 6238), which are asked for beside a password.

The app and the ledger share a key. A code is the key's HMAC of the time, in steps of 30 seconds; it
works once. A recovery code works in its place for somebody who has lost the app. Only codes that the
holder has shown once are asked for, so that nobody locks himself out.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import quote, urlencode

from gateway.admin import codes
from gateway.ledger import AccountView, Books, Conflict, TotpView

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
    """What an app needs. It is shown until the first code is."""

    secret: str = field(repr=False)
    """The key in base32, to be typed."""
    url: str = field(repr=False)
    """The same as a link for apps."""


def begin(books: Books, account: AccountView, issuer: str) -> SetUp:
    """Begin a set-up anew; `issuer` is the site's name in the app. Raises Conflict after a set-up."""
    key = secrets.token_bytes(SECRET_BYTES)
    books.totp.propose(account, key)
    secret = base64.b32encode(key).decode()
    label = f"{quote(issuer, safe='')}:{quote(account.name, safe='')}"
    query = urlencode({"secret": secret, "issuer": issuer}, quote_via=quote)
    return SetUp(secret, f"otpauth://totp/{label}?{query}")


def finish(books: Books, account: AccountView, code: str) -> tuple[str, ...] | None:
    """End the set-up by a code; return the recovery codes, or None if the code is wrong.

    Only the returned value has the recovery codes. Raises Conflict without a set-up.
    """
    view = books.totp.read(account.id)
    if view is None or view.confirmed_ms is not None:
        raise Conflict("there is no set-up that could be finished; begin anew")
    step = _find_step(view, _SPACES.sub("", code), books.clock())
    if step is None:
        return None
    made = tuple(codes.make_code(RECOVERY_GROUPS) for _ in range(RECOVERY_CODES))
    books.totp.confirm(account, view.secret, step, [codes.digest(one) for one in made])
    return made


def check(books: Books, account: AccountView, code: str | None) -> Check:
    """Check a one-time code or a recovery code and use it up; without a set-up anything is right."""
    view = books.totp.read(account.id)
    if view is None or view.confirmed_ms is None:
        return "right"
    text = _SPACES.sub("", code or "")
    if not text:
        return "missing"
    if _CODE.fullmatch(text):
        step = _find_step(view, text, books.clock())
        is_right = step is not None and books.totp.use_step(account.id, step)
    else:
        read = codes.read_code(text, RECOVERY_GROUPS)
        is_right = read is not None and books.totp.use_recovery_code(account, codes.digest(read))
    return "right" if is_right else "wrong"


def compute_code(secret: bytes, step: int) -> str:
    """Return the code of a time step (RFC 4226, 5.3)."""
    hashed = hmac.digest(secret, step.to_bytes(8, "big"), "sha1")
    offset = hashed[-1] & 0x0F
    number = int.from_bytes(hashed[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}}"


def _find_step(view: TotpView, code: str, now_ms: int) -> int | None:
    """Return the first step that has this code, among those that are due and were not used."""
    now = now_ms // STEP_MS
    steps = range(max(now - DRIFT_STEPS, view.last_step + 1), now + DRIFT_STEPS + 1)
    text = code.encode("utf-8", "replace")
    found = [
        one for one in steps if hmac.compare_digest(compute_code(view.secret, one).encode(), text)
    ]
    return found[0] if found else None
