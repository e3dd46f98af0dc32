"""Adds the accounts of a CSV file, each with a key: all in one transaction, or none."""

from __future__ import annotations

import csv
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final, TypeVar

from gateway.admin.fields import Fields
from gateway.admin.keys import add_key
from gateway.cli import arguments as read
from gateway.ledger.key_records import KeyTerms, NewKey, Terms
from gateway.ledger.records import NotFound, Refused
from gateway.ledger.sql.books import Books

COLUMNS: Final = ("name", "credit", "models", "rpm", "tpm", "concurrency", "key_name")
"""The columns that CSV may have, in any order. All except the first may be absent or empty."""
MAX_ROWS: Final = 1000
"""The most accounts of a file: they are written in one transaction, and other writers wait for it."""
_FIELDS: Final = {"requests_per_minute": "rpm", "tokens_per_minute": "tpm"}
"""The column of each field that has a different name."""

MADE: Final = Fields[NewKey](
    ("name", "key.account"), ("key_name", "key.terms.name"), ("key_id", "key.id"), ("key", "secret")
)
"""The columns that are printed for each account."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NewAccount:
    place: str
    """The file and the line."""
    name: str
    credit_nano: int
    terms: Terms
    key_name: str


def read_accounts(file: Path) -> list[NewAccount]:
    """Read the file. Raises NotFound or Refused, with line and column."""
    try:
        text = file.read_text(encoding="utf-8-sig")  # spreadsheets write a mark at the beginning
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {file}") from error
    except UnicodeDecodeError as error:
        raise Refused(f"{file}: must be UTF-8 text; the byte at {error.start} is not") from error
    accounts = list(_read_rows(file, text))
    if not 1 <= len(accounts) <= MAX_ROWS:
        raise Refused(
            f"{file}: has {len(accounts)} accounts; write 1 to {MAX_ROWS} below the header"
        )
    return accounts


def _read_rows(file: Path, text: str) -> Iterator[NewAccount]:
    lines = csv.reader(StringIO(text, newline=""), strict=True)
    try:
        header = [cell.strip() for cell in next(lines, [])]
        _check_header(file, header)
        end = 1
        for cells in lines:
            place, end = f"{file}, line {end + 1}", lines.line_num
            if len(cells) > len(header):
                raise Refused(f"{place}: has {len(cells)} cells, and the header {len(header)}")
            if any(cells):
                yield _read_row(place, dict(zip(header, map(str.strip, cells), strict=False)))
    except csv.Error as error:
        raise Refused(f"{file}, line {lines.line_num}: is not CSV: {error}") from error


def _check_header(file: Path, header: list[str]) -> None:
    for column in header:
        if column not in COLUMNS or header.count(column) > 1:
            what = "stands there twice" if column in COLUMNS else "is unknown"
            columns = ",".join(COLUMNS)
            raise Refused(f"{file}, line 1, column '{column}': {what}; write {columns}")
    if "name" not in header:
        raise Refused(f"{file}, line 1: there is no column name; write {','.join(COLUMNS)}")


def _read_row(place: str, cells: Mapping[str, str]) -> NewAccount:
    def take(column: str, parse: Callable[[str], T]) -> T | None:
        try:
            return parse(cells[column]) if cells.get(column) else None
        except ArgumentTypeError as error:
            raise Refused(f"{place}, column {column}: {error}") from error

    name = take("name", read.word)
    if name is None:
        raise Refused(f"{place}, column name: is empty")
    terms = Terms(
        models=take("models", read.model_list),
        requests_per_minute=take("rpm", read.count),
        tokens_per_minute=take("tpm", read.count),
        concurrency=take("concurrency", read.count),
    )
    credit_nano = take("credit", read.amount_or_zero) or 0
    return NewAccount(place, name, credit_nano, terms, take("key_name", read.word) or "")


def add_accounts(books: Books, accounts: list[NewAccount]) -> list[NewKey]:
    """Add all accounts, each with a key, or none. Raises Refused with line and column."""
    made: list[NewKey] = []
    with books.changing():
        for one in accounts:
            try:
                books.accounts.create(one.name, credit_nano=one.credit_nano, terms=one.terms)
            except Refused as error:
                column = _FIELDS.get(error.field or "name", error.field)
                raise Refused(f"{one.place}, column {column}: {error}") from error
            try:
                made.append(add_key(books, one.name, KeyTerms(name=one.key_name)))
            except Refused as error:
                raise Refused(f"{one.place}, column key_name: {error}") from error
    return made
