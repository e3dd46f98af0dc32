"""The verbs that move: `adopt`, `key adopt`, `account import`, `export` and `import`."""

from __future__ import annotations

import os
import sys
from argparse import SUPPRESS
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Unpack

from gateway.admin import views
from gateway.admin.fields import printable
from gateway.base.process import PROGRAM, ExitCode
from gateway.cli import arguments as read
from gateway.cli.accounts import warn_of_likeness
from gateway.cli.books import NEW_FILE, tell_verdict
from gateway.cli.command import Command, write_new
from gateway.cli.keys import NEW_TERMS, KeyOptions, look_up, warn_of_unknown_models
from gateway.cli.verbs import arg, flag, verb
from gateway.config.load import load_defaults
from gateway.extras.moves import files, litellm, new_api, people, sources
from gateway.extras.moves import keys as adopted
from gateway.extras.moves.draft import Draft
from gateway.extras.spreadsheets.tables import write_csv
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import Refused

_NAMED: Final = 5
"""Accounts that are named in the summary: a table may have hundreds."""
_TO: Final = arg("--to", read.new_file, "write to this new file, not to stdout", dest="target")


@verb(
    "adopt litellm",
    examples=(
        "adopt litellm config.yaml --to gateway.toml",
        "adopt litellm config.json > gateway.toml",
    ),
    arguments=(
        arg("file", read.new_file, "its config.yaml, or the same as JSON, which needs no PyYAML"),
        _TO,
    ),
    load=load_defaults,
)
def adopt_litellm(command: Command, file: Path, target: Path | None) -> None:
    """Write a gateway.toml from LiteLLM's config.yaml, and say what cannot be carried over."""
    with command.progress() as progress:
        progress(f"reading {file}")  # PyYAML takes seconds for some thousand models
        draft = litellm.adopt(file, os.environ)
    _hand_over(command, draft, target)


@verb(
    "adopt new-api",
    examples=("adopt new-api channels.json options.json --to gateway.toml",),
    arguments=(
        arg("files", read.new_file, "exports of its channels and options, as JSON", nargs="+"),
        _TO,
    ),
    load=load_defaults,
)
def adopt_new_api(command: Command, files: list[Path], target: Path | None) -> None:
    """Write a gateway.toml from new-api's channels and ratios, and say what cannot be carried over."""
    with command.progress() as progress:
        progress(f"reading {', '.join(map(str, files))}")
        draft = new_api.adopt(files)
    _hand_over(command, draft, target)


def _hand_over(command: Command, draft: Draft, target: Path | None) -> None:
    text = draft.write()
    if target is not None:
        write_new("`adopt`", target, text.encode())
    shown: dict[str, object] = {"toml": text, "variables": draft.variables, "notes": draft.notes}
    command.show(shown, "" if target else text)
    if draft.notes:
        command.say("Not carried over, or to be looked at:")
    for one in draft.notes:
        command.say(f"- {printable(one)}")
    if draft.variables:
        command.say("Set these environment variables; a provider without its key is off:")
    for name, why in draft.variables.items():
        command.say(f"- {name}: {printable(why)}")
    if target is not None:
        command.say(f"{target} is written. Next: {PROGRAM} --config {target} check")


@verb(
    "account import",
    examples=("account import people.csv > keys.csv",),
    arguments=(
        arg(
            "file", read.new_file, f"CSV with the header {','.join(people.COLUMNS)}, or some of it"
        ),
    ),
)
def account_import(command: Command, file: Path) -> None:
    """Add the accounts of a CSV file, each with a key, or none. The keys are shown only once."""
    found = people.read_accounts(file)
    models = [model for one in found for model in one.terms.models or ()]
    warn_of_unknown_models(command, {"models": tuple(dict.fromkeys(models))})
    books = command.open_books(create=True)
    made = people.add_accounts(books, found)
    command.say(f"Accounts added: {len(made)}. Their keys, shown this once:")
    rows = [people.MADE.describe(one) for one in made]
    command.show(rows, write_csv(rows, people.MADE.names))
    warn_of_likeness(command, books, list(dict.fromkeys(one.key.account for one in made)))


@verb(
    "key adopt",
    examples=(
        "key adopt alice --name old --cap 20 --stdin < keys.txt",
        "key adopt --csv keys.csv",
        "key adopt alice --digests --stdin < hashes.txt",
    ),
    arguments=(
        arg(
            "account", "ACCOUNT", "the account that pays; with --csv of rows without one", nargs="?"
        ),
        flag("--stdin", "read from stdin: one key a line, and nothing else"),
        arg(
            *("--csv", read.new_file),
            f"CSV, or stdin without a file, below the header {','.join(adopted.COLUMNS)}, or some of it",
            nargs="?",
            dest="file",
            default=SUPPRESS,
        ),
        flag("--digests", "they are SHA-256 in hex, as in the table LiteLLM_VerificationToken"),
        arg(
            "--prefix",
            "TEXT",
            "stands before each key: sk- for those of tables of one-api and new-api",
        ),
        *NEW_TERMS,
    ),
)
def key_adopt(
    command: Command,
    account: str | None,
    *,
    stdin: bool,
    digests: bool,
    file: Path | Literal[False] | None = False,
    prefix: str | None,
    **options: Unpack[KeyOptions],
) -> None:
    """Take over keys that callers have from another gateway, all or none. Only digests are stored."""
    if file is False and not stdin:
        raise Refused("give the keys with --stdin, one a line, or as a table with --csv FILE")
    if file is not False and stdin:
        raise Refused("give --stdin or --csv: --csv without a FILE reads a table from stdin")
    if file is not False and any(one is not None for one in options.values()):
        raise Refused("with --csv the limits of a key are columns of its row, not options")
    if file is False and account is None:
        raise Refused("name the account that pays: key adopt ACCOUNT --stdin")
    warn_of_unknown_models(command, options)
    text = sources.read_file(file) if file else _read_stdin()
    books = command.open_books(create=True)
    if file is False:
        assert account is not None
        terms, own = look_up(books, account, options)
        new = KeyTerms(**terms)
        found = adopted.read_lines(text, account, new, own, prefix or "", is_digest=digests)
    else:
        found = adopted.read_csv(books, text, account, prefix or "", is_digest=digests)
        models = dict.fromkeys(model for one in found for model in one.terms.models or ())
        warn_of_unknown_models(command, {"models": tuple(models)})
    with command.progress() as progress:
        made = adopted.adopt(books, found, progress)
    books.wait_in_force()
    command.show([views.KEY.describe(one) for one in made])
    owners = list(dict.fromkeys(one.account for one in made))
    named = ", ".join(owners[:_NAMED]) + (" and others" if len(owners) > _NAMED else "")
    command.say(f"Keys adopted: {len(made)}, of {named}. They work as they are.")


def _read_stdin() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        raise Refused("pipe the keys in, so that they do not stay in the shell's history")
    return sources.decode(sys.stdin.buffer.read(sources.MAX_BYTES + 1), "stdin")


@verb("export", examples=("export ledger.jsonl",), arguments=(NEW_FILE,))
def export_ledger(command: Command, file: Path) -> int:
    books = command.open_books()
    # An import would refuse a ledger that does not add up.
    with command.progress() as progress:
        report = books.audit(progress)
    if not report.ok:
        command.say("Nothing is exported: see `audit`.")
        return tell_verdict(command, report)
    with command.progress() as progress:
        counts, in_flight = files.export_ledger(books, file, progress)
    command.show({"file": str(file), "rows": counts})
    command.say(f"The books are in order. {file} has {_list_counts(counts)}.")
    if in_flight:
        command.say(
            f"Requests in flight: {in_flight}. What they will cost is not in the file: to move"
            " everything, stop the gateway and export again."
        )
    return ExitCode.OK


@verb(
    "import",
    examples=("import ledger.jsonl", "import ledger.jsonl --config /etc/gateway.toml"),
    arguments=(arg("file", read.new_file, "a file that `export` wrote"),),
)
def import_ledger(command: Command, file: Path) -> int:
    location = command.config.storage.location
    with command.progress() as progress:
        counts, report = files.import_ledger(location, file, progress)
    if not report.ok:
        command.say(f"No ledger was made at {location}.")
        return tell_verdict(command, report)
    command.show({"file": str(file), "rows": counts})
    command.say(f"The books are in order. {location} has {_list_counts(counts)}.")
    return ExitCode.OK


def _list_counts(counts: Mapping[str, int]) -> str:
    shown = ("accounts", "keys", "requests", "entries")
    return ", ".join(f"{name} {counts.get(name, 0)}" for name in shown)
