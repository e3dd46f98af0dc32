"""The verbs over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from gateway.process import ExitCode
from tests.support.cli import Cli
from tests.support.stand_in import PASSWORD, SHOWN, URL, stand_in


def test_an_audit_of_wrong_books_exits_3(cli: Cli, alice: str) -> None:
    with sqlite3.connect(cli.database) as database:
        database.execute("UPDATE accounts SET balance_nano = balance_nano + 1")
    database.close()
    answer = cli.run("audit")
    assert answer.code == 3
    assert alice in answer.err
    assert answer.err.endswith("The books do not add up.\n")
    report = cli.run("audit", "--json")
    assert (report.code, report.json["ok"], len(report.json["problems"])) == (3, False, 1)


def test_backups_of_a_database_elsewhere_are_its_own(cli: Cli) -> None:
    """Nothing is opened, so no server has to run."""
    cli.config.write_text(f'[storage]\nurl = "{URL}"\n')
    ran = cli.run("backup", str(cli.folder / "copy.db"))
    assert (ran.code, ran.out) == (ExitCode.FAILED, "")
    assert (
        f"{SHOWN} is not copied to a file: backups of a database of PostgreSQL are its own"
        in ran.err
    )
    assert "pg_dump" in ran.err
    assert PASSWORD not in ran.err
    assert not (cli.folder / "copy.db").exists()


def test_a_database_elsewhere_without_a_ledger_is_told_by_its_address(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.config.write_text(f'[storage]\nurl = "{URL}"\n')
    stand_in(monkeypatch, cli.folder / "behind.db")
    ran = cli.run("account", "list")
    assert ran.code == ExitCode.NOT_FOUND
    assert f"there is no ledger in {SHOWN}; 'serve' or" in ran.err


def test_books_that_do_not_add_up_do_not_move(cli: Cli) -> None:
    cli.done("account", "add", "alice", "--credit", "20")
    file = cli.folder / "ledger.jsonl"
    cli.done("export", str(file))
    with closing(sqlite3.connect(cli.database)) as connection, connection:
        connection.execute("UPDATE accounts SET balance_nano = 1")
    refused = cli.run("export", str(cli.folder / "again.jsonl"))
    assert refused.code == ExitCode.AUDIT_MISMATCH
    assert "account alice: balance is 1" in refused.err
    assert not (cli.folder / "again.jsonl").exists()
    cli.database.rename(cli.folder / "old.db")
    file.write_bytes(file.read_bytes().replace(b'"balance_nano":2', b'"balance_nano":3', 1))
    refused = cli.run("import", str(file))
    assert refused.code == ExitCode.AUDIT_MISMATCH
    assert f"No ledger was made at {cli.database}." in refused.err
    assert not cli.database.exists()


def test_a_ledger_moves_into_a_database_and_back(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.done("account", "add", "alice", "--credit", "20")
    file, again, text = cli.folder / "one", cli.folder / "two", cli.config.read_text()
    cli.done("export", str(file))
    opened = stand_in(monkeypatch, cli.folder / "behind.db")
    cli.config.write_text(f'{text}[storage]\nurl = "{URL}"\n')
    assert f"The books are in order. {SHOWN} has accounts 1, " in cli.done("import", str(file)).err
    cli.done("export", str(again))
    assert opened == [URL, URL]
    cli.config.write_text(f'{text}[storage]\npath = "back.db"\n')
    cli.done("import", str(again))
    assert cli.done("account", "show", "alice", "--json").json["balance"] == "20.00"
