"""`export`, `import` and `adopt` on the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from gateway.extras.moves import files, ledgers
from gateway.extras.moves.ledgers import MoveRecord
from gateway.ledger.records import AuditReport, DatabaseUrl
from gateway.ledger.sqlite.books import SqliteBooks, run_audit
from tests.ledger.sql.requests import add_requests, make_item
from tests.support.cli import Cli, watch_progress
from tests.support.stand_in import SHOWN, URL, stand_in


class Mover:
    """Makes a ledger of any address in one file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.made: list[str] = []

    def make_ledger(
        self, url: DatabaseUrl, version: int, records: Iterable[MoveRecord], *_: object
    ) -> AuditReport:
        self.made.append(url.value)
        return ledgers.make_ledger(self.file, version, records)


SESSION = Path(__file__).with_name("sessions") / "adopt.txt"


def test_a_ledger_moves_into_a_database_and_back(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.done("account", "add", "alice", "--credit", "20")
    file, again, text = cli.folder / "one", cli.folder / "two", cli.config.read_text()
    monkeypatch.setattr(files, "ROWS_BETWEEN", 1)
    told = watch_progress(monkeypatch)
    cli.done("export", str(file))
    rows = len(file.read_bytes().splitlines()) - len(("the version", "the end"))
    assert told[-1] == ("writing the ledger", 0, rows, "rows")
    opened, mover = stand_in(monkeypatch, cli.folder / "behind.db"), Mover(cli.folder / "behind.db")
    monkeypatch.setattr(ledgers, "find_added", lambda _: [mover])
    cli.config.write_text(f'{text}[storage]\nurl = "{URL}"\n')
    assert f"The books are in order. {SHOWN} has accounts 1, " in cli.done("import", str(file)).err
    assert (f"reading {file}", file.stat().st_size, "bytes") in {(a, c, d) for a, _, c, d in told}
    cli.done("export", str(again))
    assert [*mover.made, *opened] == [URL, URL]
    cli.config.write_text(f'{text}[storage]\npath = "back.db"\n')
    cli.done("import", str(again))
    assert cli.done("account", "show", "alice", "--json").json["balance"] == "20.00"


def test_what_is_in_flight_is_told_of_the_state_that_was_written(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway that serves may begin and end requests between the audit and the export."""
    cli.done("account", "add", "alice", "--credit", "20")
    cli.done("key", "add", "alice")

    def audit(books: SqliteBooks, *_: object) -> AuditReport:
        (key,) = books.keys.read_all()
        report = run_audit(books.connection, full=True, now_ms=1)
        add_requests(books.connection, [make_item(1, key.id, 1)], 1)
        return report

    monkeypatch.setattr(SqliteBooks, "audit", audit)
    said = cli.done("export", str(cli.folder / "one")).err
    assert "Requests in flight: 1. What they will cost is not in the file" in said


def test_what_adopt_writes_passes_check(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    session = SESSION.read_text(encoding="utf-8")
    monkeypatch.chdir(cli.folder)
    for name, text in re.findall(r"(?ms)^> (\S+)\n(.*?)(?=^[$>] )", session):
        Path(name).write_text(text, encoding="utf-8")
    told = watch_progress(monkeypatch)
    for command, target in re.findall(r"(?m)^\$ (adopt .*?--to (\S+))$\n(?!!.*exists)", session):
        cli.done(*command.split())
        assert command.split()[2] in told[-1][0]
        cli.done("check", "--config", target)
        assert "gpt-4o" in Path(target).read_text(encoding="utf-8")


def test_each_adopted_key_is_told(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    told = watch_progress(monkeypatch)
    cli.done("account", "add", "alice")
    table = cli.folder / "keys.csv"
    table.write_text("key\n" + "".join(f"a-key-of-another-gateway-{n}\n" for n in range(3)))
    cli.done("key", "adopt", "alice", "--csv", str(table))
    assert told[-3:] == [("adopting keys", done, 3, "keys") for done in range(3)]
