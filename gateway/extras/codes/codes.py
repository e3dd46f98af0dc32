"""Make top-up codes, such as `ABCD-EFGH-JKLM-NPQR`, and redeem them."""

from __future__ import annotations

import secrets
from typing import Final

from gateway.admin import keys
from gateway.extras.codes.book import CodeBook
from gateway.extras.codes.records import CodeTerms, InvalidCode, NewCodes
from gateway.ledger import checks
from gateway.ledger.records import EntryView, Refused, StoredSecret
from gateway.ledger.sql.books import Books

MAX_CODES: Final = 1000
"""The most codes of a batch: they are written in one transaction, which others wait for."""

CODE_ID_BYTES: Final = 4
"""Random bytes of a code's id, which also has the time and a number in its batch."""


def make_codes(
    books: Books, amount_nano: int, count: int, *, expires_ms: int | None = None, note: str = ""
) -> NewCodes:
    """Create a batch of codes. Only the returned record contains the secrets."""
    now_ms = books.clock()
    checks.require_amount(amount_nano)
    if amount_nano <= 0:
        raise Refused("a code must be worth something", field="amount")
    if not 1 <= count <= MAX_CODES:
        raise Refused(f"a batch has 1 to {MAX_CODES} codes", field="count")
    if expires_ms is not None:
        checks.require_expiry("the codes' expiry", expires_ms, now_ms)
    checks.require_note("the note", note)
    batch = "batch_" + secrets.token_hex(keys.ID_BYTES)
    made = tuple(keys.make_code() for _ in range(count))
    rows = [
        StoredSecret(_make_id(now_ms, number), keys.digest_code(code), code[-keys.GROUP_CHARS :])
        for number, code in enumerate(made)
    ]
    CodeBook(books).add(rows, CodeTerms(batch, amount_nano, expires_ms, note), now_ms)
    return NewCodes(batch, made, amount_nano, expires_ms, now_ms)


def redeem(books: Books, account: str, text: str) -> EntryView:
    """Credit the account with a code; case, dashes and spaces do not matter."""
    code = keys.read_code(text)
    if code is None:
        raise InvalidCode
    return CodeBook(books).redeem(account, keys.digest_code(code))


def _make_id(now_ms: int, number: int) -> str:
    # The time leads, so that codes sort by it.
    return f"code_{now_ms:012x}{number:03x}{secrets.token_hex(CODE_ID_BYTES)}"
