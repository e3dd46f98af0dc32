"""The verbs that make keys.

If `account_id` is given, the key must belong to that account; keys of others are unknown.
"""

from __future__ import annotations

import secrets
from typing import Final

from gateway.base.ids import digest, find_last4, make_key
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
    secret = make_key()
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
    secret, grace_ms = make_key(), grace_seconds * 1000
    new = store("key", secret)
    key = books.keys.replace(key_id, new, grace_ms=grace_ms, account_id=account_id)
    return NewKey(key, secret)


def store(kind: str, secret: str) -> records.StoredSecret:
    """Return the stored part of a new key or token."""
    last4 = find_last4(secret)
    assert last4 is not None
    return records.StoredSecret(f"{kind}_{secrets.token_hex(ID_BYTES)}", digest(secret), last4)
