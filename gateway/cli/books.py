"""The verbs for the books: audits and copies."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.admin import audits, views
from gateway.base.process import ExitCode
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.output import render
from gateway.cli.verbs import arg, verb
from gateway.ledger.records import AuditReport, DatabaseUrl, Refused

NEW_FILE: Final = arg("file", read.new_file, "the new file; must not exist")


@verb("audit", examples=("audit", "audit --json"))
def audit(command: Command) -> int:
    books = command.open_books()
    with command.progress() as progress:
        report = audits.run_audit(books, command.config, progress)
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
    "backup",
    examples=("backup gateway-2026-11-21.db", "backup /var/backups/gateway.db --json"),
    arguments=(NEW_FILE,),
)
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
