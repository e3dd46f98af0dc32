"""The verbs of top-up codes: `ABCD-EFGH-JKLM-NPQR`, worth an amount, redeemed once.

A code is 80 random bits; what is kept is its SHA-256 and its last four symbols.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final

from gateway.ledger.book_codes import CodeRow, CodeTerms, invalid_code
from gateway.ledger.books import Books
from gateway.ledger.code_records import CodeStatus, CodeView, NewCodes
from gateway.ledger.records import EntryView, Refused
from gateway.verb_checks import MAX_NOTE_CHARS, require_amount, require_expiry, require_text

ALPHABET: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without 0, O, 1 and I, which people read as each other."""
GROUPS: Final = 4
GROUP_CHARS: Final = 4
MAX_CODES: Final = 1000
"""Of one batch."""

BATCH_ID_BYTES: Final = 8
CODE_ID_BYTES: Final = 4
"""Behind the time and a number."""

_SHAPE: Final = re.compile(f"[{ALPHABET}]{{{GROUPS * GROUP_CHARS}}}")
_BETWEEN: Final = re.compile(r"[\s\-\u2010-\u2015]")
"""Spaces, and the dashes that word processors make of a hyphen."""


def make_codes(
    books: Books, amount_nano: int, count: int, *, expires_ms: int | None = None, note: str = ""
) -> NewCodes:
    """A batch of codes. They themselves are in what this returns and nowhere else."""
    now_ms = books.clock()
    _require_batch(amount_nano, count, expires_ms, note, now_ms)
    batch = "batch_" + secrets.token_hex(BATCH_ID_BYTES)
    made = tuple(_make_code() for _ in range(count))
    rows = [
        CodeRow(_make_id(now_ms, number), digest(code), code[-GROUP_CHARS:])
        for number, code in enumerate(made)
    ]
    books.add_codes(rows, CodeTerms(batch, amount_nano, expires_ms, note), now_ms)
    return NewCodes(batch, made, amount_nano, expires_ms, now_ms)


def list_codes(books: Books, status: CodeStatus | None = None) -> list[CodeView]:
    """The newest first."""
    _, found = books.codes_page(status, None, None, None)
    return found


def void_code(books: Books, code_id: str) -> CodeView:
    return books.void_code(code_id)


def void_batch(books: Books, batch: str) -> int:
    """End the codes of a batch that are still open; how many they were."""
    return books.void_batch(batch)


def redeem(books: Books, account: str, text: str) -> EntryView:
    """Credit the account with a code, in any case, with or without dashes and spaces."""
    code = _BETWEEN.sub("", text).upper()
    if not _SHAPE.fullmatch(code):
        raise invalid_code()
    return books.redeem_code(account, digest(code))


def digest(code: str) -> bytes:
    """The 32 bytes by which a code is stored and looked up, dashes or not."""
    return hashlib.sha256(code.replace("-", "").encode()).digest()


def _make_code() -> str:
    return "-".join(
        "".join(secrets.choice(ALPHABET) for _ in range(GROUP_CHARS)) for _ in range(GROUPS)
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
