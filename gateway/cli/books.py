"""The verbs for the books as a whole: audit, events, backup, and moving them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gateway.admin import accounts, moves, observations, views
from gateway.cli import arguments as read
from gateway.cli.arguments import render
from gateway.cli.command import Command
from gateway.cli.verbs import LIMIT, SINCE, arg, verb
from gateway.ledger.records import AuditReport, DatabaseUrl, Refused
from gateway.process import ExitCode

_NEW_FILE: Final = arg("file", "FILE", read.new_file, "the new file; must not exist")


@verb("audit", "audit", "audit --json")
def audit(command: Command) -> int:
    with command.open_books() as books:
        report = observations.run_audit(books, command.config)
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
    for problem in report.problems:
        command.say(problem)
    command.say("The books are in order." if report.ok else "The books do not add up.")
    return ExitCode.OK if report.ok else ExitCode.AUDIT_MISMATCH


@verb(
    "events",
    "events --since 24h",
    "events --search alice --limit 200",
    "events --search key.revoke",
    arg("--search", "TEXT", read.word, "only where actor, action, account or target has it"),
    SINCE,
    LIMIT,
)
def events(command: Command, search: str | None, since: int | None, limit: int) -> None:
    with command.open_books() as books:
        found = books.events.read_page(search, None, limit + 1)
    rows = [event for event in found if event.at_ms >= (since or 0)]
    command.show_latest("events", rows, views.EVENT, limit)


@verb("backup", "backup gateway-2026-11-21.db", "backup /var/backups/gateway.db --json", _NEW_FILE)
def backup(command: Command, file: Path) -> None:
    location = command.config.storage.location
    if isinstance(location, DatabaseUrl):
        raise Refused(
            f"{location} is not copied to a file: backups of a database of PostgreSQL are its own,"
            " pg_dump, or base backups with WAL archiving. `export` writes a ledger to a file"
        )
    with command.open_books() as books:
        size = accounts.back_up(books, file)
    command.show({"file": str(file), "bytes": size})
    command.say(f"{location} is copied to {file}, {size} bytes.")


@verb("export", "export ledger.jsonl", _NEW_FILE)
def export_ledger(command: Command, file: Path) -> int:
    with command.open_books() as books:
        # An import would refuse books that do not add up.
        report = books.audit()
        if not report.ok:
            command.say("Nothing is exported: see `audit`.")
            return _report_problems(command, report)
        counts = moves.export_ledger(books, file)
    command.show({"file": str(file), "rows": counts})
    command.say(f"The books are in order. {file} has {_list_counts(counts)}.")
    if report.pending:
        command.say(
            f"Requests in flight: {report.pending}. What they will cost is not in the file: to move"
            " everything, stop the gateway and export again."
        )
    return ExitCode.OK


@verb(
    "import",
    "import ledger.jsonl",
    "import ledger.jsonl --config /etc/gateway.toml",
    arg("file", "FILE", read.new_file, "a file that `export` wrote"),
)
def import_ledger(command: Command, file: Path) -> int:
    location = command.config.storage.location
    counts, report = moves.import_ledger(location, file)
    if not report.ok:
        command.say(f"No ledger was made at {location}.")
        return _report_problems(command, report)
    command.show({"file": str(file), "rows": counts})
    command.say(f"The books are in order. {location} has {_list_counts(counts)}.")
    return ExitCode.OK


def _report_problems(command: Command, report: AuditReport) -> ExitCode:
    for problem in report.problems:
        command.say(problem)
    command.say("The books do not add up.")
    return ExitCode.AUDIT_MISMATCH


def _list_counts(counts: Mapping[str, int]) -> str:
    shown = ("accounts", "keys", "requests", "entries")
    return ", ".join(f"{name} {counts.get(name, 0)}" for name in shown)
