"""The verbs that make or read secrets: keys, and codes that people type.

If `account_id` is given, the key must belong to that account; keys of others are unknown.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

from gateway.base import ids
from gateway.base.ids import digest, find_last4
from gateway.ledger import records
from gateway.ledger.budget_records import Allowance
from gateway.ledger.key_records import KeyTerms, NewKey
from gateway.ledger.sql.books import Books

MAX_GRACE_SECONDS: Final = 7 * 24 * 3600
"""How long a replaced key may go on working: a week is enough to deploy its successor."""

ID_BYTES: Final = 8
"""Random bytes of the id of a key, a token or a batch: 64 bits, so that two ids do not collide."""

NO_TERMS: Final = KeyTerms()


def add_key(
    books: Books, account: str, terms: KeyTerms = NO_TERMS, *, own: Allowance | None = None
) -> NewKey:
    """Create a key, with a budget of its own or none. Only the returned record has the secret."""
    secret = ids.make_key()
    return NewKey(books.keys.create(account, terms, store("key", secret), own=own), secret)


def rotate_key(
    books: Books, key_id: str, *, grace_seconds: int = 0, account_id: int | None = None
) -> NewKey:
    """Replace a key by one with its name, models, limits and expiry. The old one works for the grace.

    Both share cap and budget, including spending and holds so far.
    """
    if not 0 <= grace_seconds <= MAX_GRACE_SECONDS:
        raise records.Refused(
            "the grace must be between 0 seconds and 7 days", field="grace_seconds"
        )
    secret, grace_ms = ids.make_key(), grace_seconds * 1000
    new = store("key", secret)
    key = books.keys.replace(key_id, new, grace_ms=grace_ms, account_id=account_id)
    return NewKey(key, secret)


def store(kind: str, secret: str) -> records.StoredSecret:
    """Return the stored part of a new key or token."""
    last4 = find_last4(secret)
    assert last4 is not None
    return records.StoredSecret(f"{kind}_{secrets.token_hex(ID_BYTES)}", digest(secret), last4)


# ---- codes that people type, such as `ABCD-EFGH-JKLM-NPQR` ---------------------------------------

ALPHABET: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without 0, O, 1 and I, which people confuse."""
GROUPS: Final = 4
"""Groups of characters in a code, written with hyphens between them."""
GROUP_CHARS: Final = 4
"""Characters of a group. Four groups have 80 random bits, so guessing is hopeless."""

_SYMBOLS: Final = re.compile(f"[{ALPHABET}]+")
_BETWEEN: Final = re.compile(r"[\s\-\u2010-\u2015]")
"""Spaces, hyphens, and the dashes that word processors put in place of a hyphen."""


def read_code(text: str, groups: int = GROUPS) -> str | None:
    """Return the code that somebody typed, without dashes; None if it cannot be one."""
    code = _BETWEEN.sub("", text).upper()
    is_code = len(code) == groups * GROUP_CHARS and _SYMBOLS.fullmatch(code)
    return code if is_code else None


def digest_code(code: str) -> bytes:
    """Return the SHA-256 by which a code is stored; dashes do not matter."""
    return hashlib.sha256(code.replace("-", "").encode()).digest()


def make_code(groups: int = GROUPS) -> str:
    return "-".join(
        "".join(secrets.choice(ALPHABET) for _ in range(GROUP_CHARS)) for _ in range(groups)
    )
