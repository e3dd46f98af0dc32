"""The verbs `export` and `import`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gateway.base.process import ExitCode
from gateway.cli import arguments as read
from gateway.cli.books import NEW_FILE, tell_verdict
from gateway.cli.command import Command
from gateway.cli.verbs import arg, verb
from gateway.extras.moves import files


@verb("export", "export ledger.jsonl", NEW_FILE)
def export_ledger(command: Command, file: Path) -> int:
    books = command.open_books()
    # An import would refuse books that do not add up.
    report = books.audit()
    if not report.ok:
        command.say("Nothing is exported: see `audit`.")
        return tell_verdict(command, report)
    counts = files.export_ledger(books, file)
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
    arg("file", read.new_file, "a file that `export` wrote"),
)
def import_ledger(command: Command, file: Path) -> int:
    location = command.config.storage.location
    counts, report = files.import_ledger(location, file)
    if not report.ok:
        command.say(f"No ledger was made at {location}.")
        return tell_verdict(command, report)
    command.show({"file": str(file), "rows": counts})
    command.say(f"The books are in order. {location} has {_list_counts(counts)}.")
    return ExitCode.OK


def _list_counts(counts: Mapping[str, int]) -> str:
    shown = ("accounts", "keys", "requests", "entries")
    return ", ".join(f"{name} {counts.get(name, 0)}" for name in shown)
