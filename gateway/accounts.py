"""The operator's verbs: what the CLI and the console do to accounts, keys and balances.

Each verb checks what it was given, then does one transaction over the ledger's books. Texts of
refusals are for people; amounts are integer nano-units.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, get_args

from gateway import apikeys
from gateway.ledger.books import Books
from gateway.ledger.records import (
    AccountDetail,
    AccountView,
    AuditReport,
    Conflict,
    EntryView,
    InterruptedView,
    KeyChanges,
    KeyTerms,
    KeyView,
    NewKey,
    NotFound,
    Refused,
    UsageRow,
)
from gateway.verb_checks import (
    MAX_NAME_CHARS,
    MAX_NOTE_CHARS,
    require_amount,
    require_expiry,
    require_text,
)

__all__ = [
    "AccountDetail",
    "AccountView",
    "AuditReport",
    "Books",
    "Conflict",
    "EntryView",
    "InterruptedView",
    "KeyChanges",
    "KeyView",
    "NewKey",
    "NotFound",
    "Refused",
    "UsageRow",
    "add_account",
    "add_key",
    "audit",
    "back_up",
    "correct",
    "credit",
    "edit_key",
    "list_accounts",
    "list_keys",
    "open_books",
    "resume",
    "revoke_key",
    "rotate_key",
    "show_account",
    "suspend",
    "usage",
]

MAX_IDEMPOTENCY_KEY_CHARS: Final = 200
MAX_MODEL_CHARS: Final = 200
MAX_MODELS: Final = 100
"""Of a key: the serving process has all keys in memory, and holders make keys themselves."""

MAX_LIMIT: Final = 10**9
"""Of requests, tokens and concurrency: more is a typing error."""

MAX_GRACE_SECONDS: Final = 7 * 24 * 3600
"""A replaced key that works for longer is not replaced (reliability.md §4)."""

LATEST_ENTRIES: Final = 10
LAST_CHARS: Final = 4
"""Of a key, kept to tell keys apart."""

KEY_ID_BYTES: Final = 8

_NO_TERMS: Final = KeyTerms("", None, None, None, None, None, None)

UsageGroup = Literal["day", "model", "key"]


def open_books(path: Path, *, create: bool = False) -> Books:
    """The books of a database, as a context manager.

    Raises:
        NotFound: there is no such file, and it is not to be made.
        LedgerError: it is no ledger, or of a newer version.
    """
    if not create and not path.exists():
        raise NotFound(f"there is no database at {path}; 'serve' or 'account add' makes one")
    return Books.open(path, create=create)


def add_account(
    books: Books, name: str, *, credit_nano: int = 0, operator: bool = False, note: str = ""
) -> AccountView:
    """`note` is the reason of the credit."""
    require_text("the account's name", name, MAX_NAME_CHARS, "name")
    if credit_nano:
        _require_credit(credit_nano, "credit")
    if note:
        require_text("the note", note, MAX_NOTE_CHARS, "note")
    return books.create_account(name, credit_nano=credit_nano, operator=operator, note=note)


def list_accounts(books: Books) -> list[AccountView]:
    return books.accounts()


def show_account(books: Books, name: str) -> AccountDetail:
    return AccountDetail(
        account=books.account(name),
        keys=tuple(books.keys(name)),
        entries=tuple(books.entries(name, LATEST_ENTRIES)),
    )


def credit(
    books: Books,
    name: str,
    amount_nano: int,
    *,
    note: str = "",
    idempotency_key: str | None = None,
) -> EntryView:
    """Add to the balance. With an idempotency key, repeated calls give the first one's entry."""
    _require_credit(amount_nano)
    if note:
        require_text("the note", note, MAX_NOTE_CHARS, "note")
    if idempotency_key is not None:
        require_text("the idempotency key", idempotency_key, MAX_IDEMPOTENCY_KEY_CHARS)
    return books.post(name, "credit", amount_nano, note=note, idempotency_key=idempotency_key)


def correct(
    books: Books,
    name: str,
    amount_nano: int,
    *,
    note: str,
    request_id: str | None = None,
    idempotency_key: str | None = None,
) -> EntryView:
    """Add to or take from the balance, for a reason, perhaps on account of one request.

    Of an interrupted request, 0 says that nothing is owed: it is settled too. With an idempotency
    key, repeated calls give the first one's entry.
    """
    require_text("the note of a correction", note, MAX_NOTE_CHARS, "note")
    require_amount(amount_nano)
    if amount_nano == 0 and request_id is None:
        raise Refused(
            "a correction of 0 corrects nothing, unless it names a request", field="amount"
        )
    if idempotency_key is not None:
        require_text("the idempotency key", idempotency_key, MAX_IDEMPOTENCY_KEY_CHARS)
    return books.post(
        name,
        "correction",
        amount_nano,
        note=note,
        idempotency_key=idempotency_key,
        request_id=request_id,
    )


def suspend(books: Books, name: str, *, reason: str = "") -> AccountView:
    if reason:
        require_text("the reason", reason, MAX_NOTE_CHARS, "reason")
    return books.set_suspended(name, suspended=True, reason=reason)


def resume(books: Books, name: str) -> AccountView:
    return books.set_suspended(name, suspended=False)


def add_key(
    books: Books,
    account: str,
    *,
    name: str = "",
    expires_ms: int | None = None,
    models: Sequence[str] | None = None,
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    concurrency: int | None = None,
    cap_nano: int | None = None,
) -> NewKey:
    """A new key. The secret is in what this returns and nowhere else."""
    terms = KeyTerms(
        name=name,
        models=None if models is None else tuple(dict.fromkeys(models)),
        requests_per_minute=requests_per_minute,
        tokens_per_minute=tokens_per_minute,
        concurrency=concurrency,
        cap_nano=cap_nano,
        expires_ms=expires_ms,
    )
    _require_terms(terms, books.clock())
    secret = apikeys.make_key()
    key = books.create_key(
        account,
        terms,
        key_id=_make_key_id(),
        digest=apikeys.digest(secret),
        last4=secret[-LAST_CHARS:],
    )
    return NewKey(key, secret)


def edit_key(
    books: Books, key_id: str, changes: KeyChanges, *, account_id: int | None = None
) -> KeyView:
    """Change some of a live key's terms; None clears one. With an account's id: a key of that."""
    if not changes:
        raise Refused("nothing to change; give a name, a cap, an expiry or models")
    terms = replace(_NO_TERMS, **changes)
    _require_terms(terms, books.clock())
    if terms.models is not None:
        changes = {**changes, "models": tuple(dict.fromkeys(terms.models))}
    return books.edit_key(key_id, changes, account_id=account_id)


def list_keys(books: Books, account: str | None = None) -> list[KeyView]:
    return books.keys(account)


def rotate_key(
    books: Books, key_id: str, *, grace_seconds: int = 0, account_id: int | None = None
) -> NewKey:
    """Replace a key: the new one has its name, models, limits, expiry and the rest of its cap.

    The old one works for the grace, and until then may itself spend that rest.
    """
    if not 0 <= grace_seconds <= MAX_GRACE_SECONDS:
        raise Refused("the grace must be between 0 seconds and 7 days", field="grace_seconds")
    secret = apikeys.make_key()
    key = books.replace_key(
        key_id,
        key_id=_make_key_id(),
        digest=apikeys.digest(secret),
        last4=secret[-LAST_CHARS:],
        grace_ms=grace_seconds * 1000,
        account_id=account_id,
    )
    return NewKey(key, secret)


def revoke_key(books: Books, key_id: str, *, account_id: int | None = None) -> KeyView:
    return books.revoke_key(key_id, account_id=account_id)


def usage(
    books: Books,
    *,
    account: str | None = None,
    by: UsageGroup = "day",
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> list[UsageRow]:
    """What was charged for requests that ended in [since, until); days are UTC."""
    if by not in get_args(UsageGroup):
        raise Refused(f"usage is by {', '.join(get_args(UsageGroup))}, not by '{by}'")
    return books.usage(by=by, account=account, since_ms=since_ms, until_ms=until_ms)


def audit(books: Books) -> AuditReport:
    """The full proof; a success is remembered as a checkpoint."""
    return books.audit()


def back_up(books: Books, target: Path) -> int:
    """Write a copy of the whole ledger, as of now, to a new file; its size in bytes."""
    if os.path.lexists(target):
        raise Conflict(f"{target} exists already; a backup overwrites nothing")
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent}")
    return books.back_up(target)


def _make_key_id() -> str:
    return "key_" + secrets.token_hex(KEY_ID_BYTES)


def _require_credit(amount_nano: int, field: str = "amount") -> None:
    require_amount(amount_nano, field)
    if amount_nano <= 0:
        raise Refused(
            "a credit must be above 0; use a correction to take from a balance", field=field
        )


def _require_terms(terms: KeyTerms, now_ms: int) -> None:
    if terms.name:
        require_text("the key's name", terms.name, MAX_NAME_CHARS, "name")
    if terms.expires_ms is not None:
        require_expiry("the key's expiry", terms.expires_ms, now_ms)
    if terms.models is not None:
        _require_models(terms.models)
    for limit in (terms.requests_per_minute, terms.tokens_per_minute, terms.concurrency):
        if limit is not None and not 0 <= limit <= MAX_LIMIT:
            raise Refused(f"a limit must be between 0 (none) and {MAX_LIMIT}")
    if terms.cap_nano is not None:
        require_amount(terms.cap_nano, "cap")
        if terms.cap_nano <= 0:
            raise Refused("the key's cap must be above 0", field="cap")


def _require_models(models: Sequence[str]) -> None:
    if not models:
        raise Refused("name at least one model, or none to allow all", field="models")
    if len(models) > MAX_MODELS:
        raise Refused(f"name at most {MAX_MODELS} models, or none to allow all", field="models")
    for model in models:
        require_text("a model's name", model, MAX_MODEL_CHARS, "models")
