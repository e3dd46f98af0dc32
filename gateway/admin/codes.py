"""The verbs of top-up codes such as `ABCD-EFGH-JKLM-NPQR`.

A code has 80 random bits; only its SHA-256 and its last four symbols are stored.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Final

from gateway.admin.checks import MAX_NOTE_CHARS, require_amount, require_expiry, require_text
from gateway.ledger.records import (
    CodeStatus,
    CodeTerms,
    CodeView,
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


def list_codes(books: Books, status: CodeStatus | None = None) -> list[CodeView]:
    """Return the newest first."""
    _, found = books.codes.read_page(status, None, None, None)
    return found


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


_SIGNS: Final = "=+\\-@"
_WIDE: Final = "\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u207c\u207a\u207b\u208c\u208a\u208b\ufb29\u2212"
"""The same signs in other widths and heights: East Asian editions read some as the plain ones."""
_FORMULA: Final = re.compile(rf"[\t\r\n]|\s*[{_SIGNS}{_WIDE}]")
"""The beginning of a cell that a spreadsheet runs."""
_BEHIND: Final = re.compile(rf"[;|][\s\"]*(?=[{_SIGNS}{_WIDE}])")
"""What ends a cell elsewhere, before a formula: where the decimal sign is a comma, cells end at a
semicolon, and quotes do not keep a text together."""


class Figure(str):
    """A number as text that is left as it is in CSV, such as `-0.25`."""

    __slots__ = ()


def render_csv(header: Sequence[str], rows: Iterable[Sequence[str | int | None]]) -> str:
    """Return a whole CSV file."""
    return csv_lines((header, *rows))


def csv_lines(rows: Iterable[Sequence[str | int | None]]) -> str:
    """Return lines of CSV in which no text cell is a formula; None is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in rows:
        writer.writerow([_guard(cell) if isinstance(cell, str) else cell for cell in row])
    return buffer.getvalue()


def _guard(cell: str) -> str:
    if isinstance(cell, Figure):
        return cell
    mark = "'" if _FORMULA.match(cell) else ""
    return printable(mark + _BEHIND.sub(r"\g<0>'", cell))


def printable(cell: str) -> str:
    """Replace characters that are not printable, such as those that move a terminal's cursor."""
    if cell.isprintable():
        return cell
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cell)
