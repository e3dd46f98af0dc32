"""The verbs for the books: entries, audits, copies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Final, get_args

from gateway.admin import asking, views
from gateway.admin.fields import write_csv
from gateway.base.process import ExitCode
from gateway.cli import arguments as read
from gateway.cli.arguments import render
from gateway.cli.command import Command
from gateway.cli.verbs import ACCOUNT, LIMIT, SINCE, UNTIL, arg, choice, verb
from gateway.ledger.records import (
    AuditReport,
    DatabaseUrl,
    EntryFilter,
    EntryKind,
    EntryView,
    EventFilter,
    Refused,
)
from gateway.ledger.sql.books import Books

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
