"""The verbs for the books: entries, audits, copies, and the accounts of a CSV file.

The accounts, each with a key, are all added in one transaction, or none is.
"""

from __future__ import annotations

import csv
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import Final, TypeVar, get_args

from gateway.admin import asking, views
from gateway.admin.fields import Fields, write_csv
from gateway.admin.keys import add_key
from gateway.base.process import ExitCode
from gateway.cli import arguments as read
from gateway.cli.arguments import render
from gateway.cli.command import Command
from gateway.cli.verbs import ACCOUNT, LIMIT, SINCE, UNTIL, arg, choice, verb
from gateway.ledger.key_records import KeyTerms, NewKey, Terms
from gateway.ledger.records import (
    AuditReport,
    DatabaseUrl,
    EntryFilter,
    EntryKind,
    EntryView,
    EventFilter,
    NotFound,
    Refused,
)
from gateway.ledger.sql.books import Books

COLUMNS: Final = ("name", "credit", "models", "rpm", "tpm", "concurrency", "key_name")
"""The columns there may be, in any order; all but the first may be absent or empty."""
MAX_ROWS: Final = 1000
"""The most accounts of a file: they are written in one transaction, which others wait for."""
_FIELDS: Final = {"requests_per_minute": "rpm", "tokens_per_minute": "tpm"}
"""The columns of fields that have another name."""

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


NEW_FILE: Final = arg("file", read.new_file, "the new file; must not exist")


@verb("audit", "audit", "audit --json")
def audit(command: Command) -> int:
    books = command.open_books()
    with command.progress() as progress:
        report = asking.run_audit(books, command.config, progress)
    text = (
        f"accounts {report.accounts}, entries {report.entries}, "
        f"requests pending {report.pending}, interrupted {report.interrupted}"
    )
    if report.to_settle:
        text += "\n\n" + render(views.INTERRUPTED.columns, report.to_settle, command.currency)
    command.show(views.AUDIT.describe(report), text)
    if report.unsettled:
        command.say(
            f"Interrupted requests to settle: {report.unsettled}. Nothing was charged for them."
            " Settle each with `account correct --request ID`."
        )
    return tell_verdict(command, report)


@verb(
    "events",
    "events --since 24h",
    "events --search alice --limit 200",
    "events --search key.revoke",
    arg("--search", "TEXT", "only those whose actor, action, account or target contains TEXT"),
    SINCE,
    LIMIT,
)
def events(command: Command, search: str | None, since: int | None, limit: int) -> None:
    chosen = EventFilter(search, since_ms=since or 0)
    rows = command.open_books().events.read_page(chosen, None, limit + 1)
    command.show_latest("event", rows, views.EVENT, limit)


@verb("backup", "backup gateway-2026-11-21.db", "backup /var/backups/gateway.db --json", NEW_FILE)
def backup(command: Command, file: Path) -> None:
    location = command.config.storage.location
    if isinstance(location, DatabaseUrl):
        raise Refused(
            f"{location} is not copied to a file: backups of a database of PostgreSQL are its own,"
            " pg_dump, or base backups with WAL archiving. `export` writes a ledger to a file"
        )
    books = command.open_books()
    with command.progress() as progress:
        size = books.back_up(file, progress)
    command.show({"file": str(file), "bytes": size})
    command.say(f"{location} is copied to {file}, {size} bytes.")


def tell_verdict(command: Command, report: AuditReport) -> ExitCode:
    """Say whether the books are in order; return the exit code."""
    for problem in report.problems:
        command.say(problem)
    command.say("The books are in order." if report.ok else "The books do not add up.")
    return ExitCode.OK if report.ok else ExitCode.AUDIT_MISMATCH


_RUN: Final = 5000
"""Entries that are read at once."""


@verb(
    "entries",
    "entries --since 7d --kind correction",
    "entries --since 2026-10-01 --until 2026-10-31 --csv > october.csv",
    ACCOUNT,
    choice("--kind", get_args(EntryKind), "only entries of this kind"),
    SINCE,
    UNTIL,
    LIMIT,
    csv="write all of them as CSV to stdout",
)
def entries(
    command: Command,
    *,
    account: str | None,
    kind: EntryKind | None,
    since: int | None,
    until: int | None,
    limit: int,
) -> None:
    books = command.open_books()
    account_id = None if account is None else books.accounts.find_id(account)
    chosen = EntryFilter(account_id, kind, since, until)
    if command.as_csv:
        command.output.print(write_csv((), views.ENTRY.names))
        for run in _read_runs(books, chosen):
            rows = map(views.ENTRY.describe, run)
            if text := write_csv(rows, views.ENTRY.names, header=False):
                command.output.print(text)
        return
    every = chain.from_iterable(_read_runs(books, chosen))
    command.show_latest("entry", [*islice(every, limit + 1)], views.LEDGER_ENTRY, limit)


def _read_runs(books: Books, chosen: EntryFilter) -> Iterator[tuple[EntryView, ...]]:
    below_id: int | None = None
    while True:
        run = books.entries.read_run(chosen, below_id, _RUN)
        yield run.entries
        below_id = run.next_id
        if below_id is None:
            return
