"""The verbs of keys that check their input: add, edit and rotate.

If `account_id` is given, the key must belong to that account; keys of others are unknown.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Final

from gateway import apikeys
from gateway.admin.checks import (
    MAX_NAME_CHARS,
    name_once,
    require_amount,
    require_expiry,
    require_terms,
    require_text,
)
from gateway.ledger import Books, KeyChanges, KeyTerms, KeyView, NewKey, Refused, StoredSecret

MAX_GRACE_SECONDS: Final = 7 * 24 * 3600
"""How long a replaced key may go on working: a week is enough to deploy its successor."""

KEY_ID_BYTES: Final = 8
"""Random bytes of a key's id: 64 bits, so that two ids do not collide."""

NO_TERMS: Final = KeyTerms()


def add_key(books: Books, account: str, terms: KeyTerms = NO_TERMS) -> NewKey:
    """Create a key. Only the returned record contains the secret."""
    if terms.models is not None:
        terms = replace(terms, models=name_once(terms.models))
    _require_terms(terms, books.clock())
    secret, stored = _make_key()
    return NewKey(books.keys.create(account, terms, stored), secret)


def edit_key(
    books: Books, key_id: str, changes: KeyChanges, *, account_id: int | None = None
) -> KeyView:
    """Change some terms of a live key."""
    if not changes:
        raise Refused("nothing to change; give a name, a cap, an expiry or models")
    terms = replace(NO_TERMS, **changes)
    _require_terms(terms, books.clock())
    if terms.models is not None:
        changes = {**changes, "models": name_once(terms.models)}
    return books.keys.edit(key_id, changes, account_id=account_id)


def rotate_key(
    books: Books, key_id: str, *, grace_seconds: int = 0, account_id: int | None = None
) -> NewKey:
    """Replace a key by one with its name, models, limits, expiry and the rest of its cap.

    The old key works for the grace, and until then may itself spend that rest.
    """
    if not 0 <= grace_seconds <= MAX_GRACE_SECONDS:
        raise Refused("the grace must be between 0 seconds and 7 days", field="grace_seconds")
    secret, stored = _make_key()
    key = books.keys.replace(key_id, stored, grace_ms=grace_seconds * 1000, account_id=account_id)
    return NewKey(key, secret)


def _make_key() -> tuple[str, StoredSecret]:
    """Return a new key, and what is stored of it."""
    secret = apikeys.make_key()
    last4 = apikeys.find_last4(secret)
    assert last4 is not None
    key_id = "key_" + secrets.token_hex(KEY_ID_BYTES)
    return secret, StoredSecret(key_id, apikeys.digest(secret), last4)


def _require_terms(terms: KeyTerms, now_ms: int) -> None:
    if terms.name:
        require_text("the key's name", terms.name, MAX_NAME_CHARS, "name")
    if terms.expires_ms is not None:
        require_expiry("the key's expiry", terms.expires_ms, now_ms)
    require_terms(terms)
    if terms.cap_nano is not None:
        require_amount(terms.cap_nano, "cap")
        if terms.cap_nano <= 0:
            raise Refused("the key's cap must be above 0", field="cap")
