"""Adopts keys that callers have from another gateway: reads lines or CSV, and adds the keys to the ledger.

Only digests are stored, as for our own keys. No message repeats a key, nor a cell that may hold one.
"""

from __future__ import annotations

import csv
import re
import secrets
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from typing import Final, TypeVar

from gateway.admin.keys import ID_BYTES, store
from gateway.base import ids
from gateway.base.progress import Progress, follow, ignore
from gateway.cli import arguments as read
from gateway.extension import find_advice
from gateway.ledger.budget_records import Allowance
from gateway.ledger.key_records import KeyTerms, KeyView
from gateway.ledger.records import Conflict, NotFound, Refused, StoredSecret
from gateway.ledger.sql.books import Books

COLUMNS: Final = (
    *("key", "account", "name", "balance", "budget", "cap", "models", "expiry", "rpm", "tpm"),
    "concurrency",
)
"""The columns that CSV may have, in any order. All except key and account may be absent or empty."""
MAX_KEYS: Final = 500
"""The most keys at once: they are written in one transaction, and a gateway that waits for its end longer
than five seconds refuses calls. PostgreSQL needs some milliseconds for a key."""
LEAST_CHARS: Final = ids.SHOWN_CHARS + ids.LEAST_HIDDEN_CHARS
"""Characters of a key, of which the last four are shown."""
MOST_CHARS: Final = 1000
"""Characters of a key, which has to fit into a header."""
_KEY: Final = re.compile(rf"[\x21-\x7e]{{{LEAST_CHARS},{MOST_CHARS}}}")
_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_UNKNOWN: Final = "????"
"""The last characters of a key that came as a digest."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AdoptedKey:
    """A key to adopt, without its text."""

    line: int
    account: str
    new: StoredSecret
    terms: KeyTerms
    own: Allowance | None = None
    balance_nano: int | None = None
    """The first balance of a new account."""


def read_key(text: str, line: int, prefix: str, *, is_digest: bool) -> StoredSecret:
    """Return the stored part of a key, or of a digest. Raises Refused."""
    if is_digest:
        if not _DIGEST.fullmatch(text):
            raise Refused(f"line {line}: is no SHA-256 in hex: write 64 characters of 0-9 and a-f")
        id_ = f"{ids.ADOPTED}_{secrets.token_hex(ID_BYTES)}"
        return StoredSecret(id_, bytes.fromhex(text), _UNKNOWN)
    key = prefix + text
    if not _KEY.fullmatch(key):
        raise Refused(
            f"line {line}: a key has {LEAST_CHARS} to {MOST_CHARS} printable ASCII characters and no"
            f" space; this one has {len(key)}"
        )
    if key.startswith(ids.PREFIX) and not ids.is_well_formed(key):
        raise Refused(f"line {line}: begins as our own keys do, but is cut short or mistyped")
    return store("key" if key.startswith(ids.PREFIX) else ids.ADOPTED, key)


def read_lines(
    text: str, account: str, terms: KeyTerms, own: Allowance | None, prefix: str, *, is_digest: bool
) -> list[AdoptedKey]:
    """Read one key a line; all get the same terms. Raises Refused."""
    return [
        AdoptedKey(number, account, read_key(key, number, prefix, is_digest=is_digest), terms, own)
        for number, line in enumerate(text.splitlines(), 1)
        if (key := line.strip())
    ]


def read_csv(
    books: Books, text: str, account: str | None, prefix: str, *, is_digest: bool
) -> list[AdoptedKey]:
    """Read CSV below a header; `account` is that of rows without one. Raises Refused."""
    lines = csv.reader(StringIO(text, newline=""), strict=True)
    found = []
    try:
        header = [cell.strip() for cell in next(lines, [])]
        _check_header(header, account)
        for cells in lines:
            if len(cells) > len(header):
                raise Refused(f"line {lines.line_num}: has more cells than the header")
            if any(cells):
                row = _Row(lines.line_num, dict(zip(header, map(str.strip, cells), strict=False)))
                new = read_key(row.cells.get("key", ""), row.line, prefix, is_digest=is_digest)
                found.append(row.read(books, new, account))
    except csv.Error as error:
        raise Refused(f"line {lines.line_num}: is not CSV") from error
    return found


def _check_header(header: Sequence[str], account: str | None) -> None:
    wanted = ",".join(COLUMNS)
    # If the header is missing, the first line has a key, so the message repeats none of it.
    if any(name not in COLUMNS for name in header) or len(set(header)) < len(header):
        raise Refused(f"line 1: the first line names the columns, each once: {wanted}")
    if "key" not in header or (account is None and "account" not in header):
        raise Refused(f"line 1: the columns key and account are needed, of {wanted}")


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    cells: Mapping[str, str]

    def take(self, column: str, parse: Callable[[str], T]) -> T | None:
        text = self.cells.get(column)
        if not text:
            return None
        # In a row with a surplus comma, the key is in another column.
        if text == self.cells.get("key") or text.startswith("sk-"):
            raise Refused(f"line {self.line}, column {column}: has a key in it")
        try:
            return parse(text)
        except ArgumentTypeError as error:
            raise Refused(
                f"line {self.line}, column {column}: cannot be read; write {_EXAMPLES[column]}"
            ) from error

    def read(self, books: Books, new: StoredSecret, account: str | None) -> AdoptedKey:
        account = self.take("account", read.word) or account
        if account is None:
            raise Refused(f"line {self.line}, column account: is empty")
        expiry = self.take("expiry", _expiry)
        terms = KeyTerms(
            models=self.take("models", _models),
            requests_per_minute=self.take("rpm", read.count),
            tokens_per_minute=self.take("tpm", read.count),
            concurrency=self.take("concurrency", read.count),
            name=self.take("name", read.word) or "",
            cap_nano=self.take("cap", read.amount_above_zero),
            expires_ms=expiry and expiry(books.clock()),
        )
        own = self.take("budget", read.allowance)
        balance_nano = self.take("balance", read.amount_or_zero)
        return AdoptedKey(self.line, account, new, terms, own, balance_nano)


def _models(text: str) -> tuple[str, ...] | None:
    models = read.model_list(text)
    if _ALL & set(models):
        return None
    for one in models:
        if problem := find_advice().judge("model_id", one, ""):
            raise ArgumentTypeError(problem)
    return models


_ALL: Final = frozenset(("*", "all-team-models", "all-proxy-models"))
"""LiteLLM's words for all models that the account may use."""


def _expiry(text: str) -> read.Expiry | None:
    return None if text in ("none", "never") else read.expiry(text)


_EXAMPLES: Final = {
    "account": "a name",
    "name": "a name",
    "balance": "an amount such as 12.50",
    "budget": "an amount and a period, such as 10/month",
    "cap": "an amount above 0, such as 100",
    "models": "whole names of models, separated by commas and in quotation marks, or `*` for all",
    "expiry": "2026-12-31, 2026-12-31T18:00 (UTC) or 90d, in the future",
    "rpm": "a whole number",
    "tpm": "a whole number",
    "concurrency": "a whole number",
}


def adopt(books: Books, found: Sequence[AdoptedKey], progress: Progress = ignore) -> list[KeyView]:
    """Add all keys to the ledger, or none. Missing accounts are created if a row states their balance.

    Raises Refused with the number of the line.
    """
    if not 1 <= len(found) <= MAX_KEYS:
        raise Refused(f"there are {len(found)} keys; give 1 to {MAX_KEYS}, and nothing else")
    _check_twice(found)
    for one in found:
        if (same := books.keys.find_owner(one.new.digest)) is not None:
            raise Conflict(f"line {one.line}: is the key {same[1]} of {same[0]} already")
    with books.changing():
        for line, name, balance_nano in _list_balances(found):
            _open_account(books, line, name, balance_nano)
        made = []
        for one in follow(found, progress, "adopting keys", len(found), "keys", between=1):
            terms = one.terms if one.terms.name else replace(one.terms, name="adopted")
            try:
                made.append(books.keys.create(one.account, terms, one.new, own=one.own))
            except Refused as error:
                raise type(error)(f"line {one.line}: {error}") from error
        return made


def _check_twice(found: Sequence[AdoptedKey]) -> None:
    lines: dict[bytes, int] = {}
    for one in found:
        first = lines.setdefault(one.new.digest, one.line)
        if first != one.line:
            raise Refused(f"line {one.line}: is the key of line {first} again")


def _list_balances(found: Sequence[AdoptedKey]) -> Iterator[tuple[int, str, int | None]]:
    """Yield each account once, with the balance that its rows state. Raises Refused if they differ."""
    balances: dict[str, tuple[int, int | None]] = {}
    for one in found:
        line, balance_nano = balances.setdefault(one.account, (one.line, one.balance_nano))
        if one.balance_nano not in (None, balance_nano):
            if balance_nano is not None:
                raise Refused(
                    f"line {one.line}: line {line} tells another balance of the same account"
                )
            balances[one.account] = one.line, one.balance_nano
    for name, (line, balance_nano) in balances.items():
        yield line, name, balance_nano


def _open_account(books: Books, line: int, name: str, balance_nano: int | None) -> None:
    """Create an account if it is missing and has a balance. Raises NotFound if it is missing and has none."""
    try:
        books.read_account(name)
    except NotFound as error:
        if balance_nano is None:
            raise NotFound(f"line {line}: {error}; a row with a balance makes one") from error
        try:
            books.accounts.create(name, credit_nano=balance_nano, note="adopted with its keys")
        except Refused as refusal:
            raise type(refusal)(f"line {line}: {refusal}") from refusal
        return
    if balance_nano:
        raise Conflict(
            f"line {line}: the account is there, so leave its balance out; `account credit` adds to it"
        )
