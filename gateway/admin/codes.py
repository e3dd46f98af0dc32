"""The verbs of top-up codes such as `ABCD-EFGH-JKLM-NPQR`.

A code has 80 random bits; only its SHA-256 and its last four symbols are stored.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

from gateway.admin.checks import MAX_NOTE_CHARS, require_amount, require_expiry, require_text
from gateway.ledger.records import (
    CodeTerms,
    EntryView,
    InvalidCode,
    NewCodes,
    Refused,
    StoredSecret,
)
from gateway.ledger.sql.books.books import Books

ALPHABET: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without 0, O, 1 and I, which people confuse."""
GROUPS: Final = 4
"""Groups of characters in a code, written with hyphens between them."""
GROUP_CHARS: Final = 4
"""Characters of a group. Four groups have 80 random bits, so guessing is hopeless."""
MAX_CODES: Final = 1000
"""The most codes of a batch: they are written in one transaction, which others wait for."""

BATCH_ID_BYTES: Final = 8
"""Random bytes of a batch's id: 64 bits, so that two ids do not collide."""
CODE_ID_BYTES: Final = 4
"""Random bytes of a code's id, which also has the time and a number in its batch."""

_SYMBOLS: Final = re.compile(f"[{ALPHABET}]+")
_BETWEEN: Final = re.compile(r"[\s\-\u2010-\u2015]")
"""Spaces, hyphens, and the dashes that word processors put in place of a hyphen."""


def make_codes(
    books: Books, amount_nano: int, count: int, *, expires_ms: int | None = None, note: str = ""
) -> NewCodes:
    """Create a batch of codes. Only the returned record contains the secrets."""
    now_ms = books.clock()
    _require_batch(amount_nano, count, expires_ms, note, now_ms)
    batch = "batch_" + secrets.token_hex(BATCH_ID_BYTES)
    made = tuple(make_code() for _ in range(count))
    rows = [
        StoredSecret(_make_id(now_ms, number), digest(code), code[-GROUP_CHARS:])
        for number, code in enumerate(made)
    ]
    books.codes.add(rows, CodeTerms(batch, amount_nano, expires_ms, note), now_ms)
    return NewCodes(batch, made, amount_nano, expires_ms, now_ms)


def redeem(books: Books, account: str, text: str) -> EntryView:
    """Credit the account with a code; case, dashes and spaces do not matter."""
    code = read_code(text)
    if code is None:
        raise InvalidCode
    return books.codes.redeem(account, digest(code))


def read_code(text: str, groups: int = GROUPS) -> str | None:
    """Return the code that somebody typed, without dashes; None if it cannot be one."""
    code = _BETWEEN.sub("", text).upper()
    is_code = len(code) == groups * GROUP_CHARS and _SYMBOLS.fullmatch(code)
    return code if is_code else None


def digest(code: str) -> bytes:
    """Return the SHA-256 by which a code is stored; dashes do not matter."""
    return hashlib.sha256(code.replace("-", "").encode()).digest()


def make_code(groups: int = GROUPS) -> str:
    return "-".join(
        "".join(secrets.choice(ALPHABET) for _ in range(GROUP_CHARS)) for _ in range(groups)
    )


def _make_id(now_ms: int, number: int) -> str:
    return f"code_{now_ms:012x}{number:03x}{secrets.token_hex(CODE_ID_BYTES)}"


def _require_batch(
    amount_nano: int, count: int, expires_ms: int | None, note: str, now_ms: int
) -> None:
    require_amount(amount_nano)
    if amount_nano <= 0:
        raise Refused("a code must be worth something", field="amount")
    if not 1 <= count <= MAX_CODES:
        raise Refused(f"a batch has 1 to {MAX_CODES} codes", field="count")
    if expires_ms is not None:
        require_expiry("the codes' expiry", expires_ms, now_ms)
    if note:
        require_text("the note", note, MAX_NOTE_CHARS, "note")
