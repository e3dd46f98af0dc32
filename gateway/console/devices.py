"""Device cookies: a browser that has signed in before is throttled apart from strangers. No I/O.

So a stranger who guesses at a name, or an address that tries too often, does not keep its owner out.
The scheme is that of OWASP's page "Slow Down Online Guessing Attacks with Device Cookies". A cookie
is a random number and its HMAC, whose key is the stored hash of the account's password: no other
account's cookie counts, none outlives the password, every node and every start knows it, and nothing
has to be stored. A stolen cookie allows as many guesses as a stranger has.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
from dataclasses import dataclass, field
from typing import Final

_NONCE_BYTES: Final = 16
"""Random bytes by which a browser is counted, so that no two have the same count."""
_TAG_BYTES: Final = 6
"""Bytes of an account's name in a cookie's: one browser may sign in to some accounts in turn."""


@dataclass(frozen=True, slots=True)
class DeviceCookie:
    name: str
    value: str = field(repr=False)


def name_cookie(account: str) -> str:
    return "gateway_device_" + hashlib.blake2b(account.encode(), digest_size=_TAG_BYTES).hexdigest()


def make_cookie(account: str, stored_hash: str) -> DeviceCookie:
    """Make the cookie of a browser that has just signed in."""
    nonce = os.urandom(_NONCE_BYTES)
    value = base64.urlsafe_b64encode(nonce + _sign(account, stored_hash, nonce)).decode()
    return DeviceCookie(name_cookie(account), value.rstrip("="))


def find_device(value: str, account: str, stored_hash: str | None) -> bytes | None:
    """Return what the browser is counted by; None if the cookie is not of this account."""
    try:
        found = base64.b64decode(value + "=" * (-len(value) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    nonce, signature = found[:_NONCE_BYTES], found[_NONCE_BYTES:]
    if stored_hash is None or not hmac.compare_digest(
        signature, _sign(account, stored_hash, nonce)
    ):
        return None
    return nonce


def _sign(account: str, stored_hash: str, nonce: bytes) -> bytes:
    message = b"device cookie\0" + nonce + account.encode()
    return hmac.digest(stored_hash.encode(), message, "sha256")
