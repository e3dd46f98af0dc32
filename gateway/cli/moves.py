"""The verbs that move a whole ledger. A verb returns its exit code; None means OK."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.admin import moves
from gateway.cli.command import Command
from gateway.exit_codes import ExitCode
from gateway.ledger import AuditReport


def export_ledger(command: Command) -> int:
    target = command.options.file
    with command.open_books() as books:
        report = books.audit()
        if not report.ok:
            command.say("Nothing is exported: see `audit`.")
            return _report_problems(command, report)
        counts = moves.export_ledger(books, target)
    command.show({"file": str(target), "rows": counts})
    command.say(f"The books are in order. {target} has {_list_counts(counts)}.")
    if report.pending:
        command.say(
            f"Requests in flight: {report.pending}. What they will cost is not in the file: to move"
            " everything, stop the gateway and export again."
        )
    return ExitCode.OK


def import_ledger(command: Command) -> int:
    location, source = command.config.storage.location, command.options.file
    counts, report = moves.import_ledger(location, source)
    if not report.ok:
        command.say(f"No ledger was made at {location}.")
        return _report_problems(command, report)
    command.show({"file": str(source), "rows": counts})
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
