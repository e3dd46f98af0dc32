"""The verbs that move a ledger: what they print, and how they exit."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from gateway.exit_codes import ExitCode
from tests.support.cli import Cli
from tests.support.stand_in import SHOWN, URL, stand_in


def test_a_ledger_moves_to_another_folder(cli: Cli) -> None:
    cli.done("account", "add", "alice", "--credit", "20")
    cli.add_key("alice")
    file = str(cli.folder / "ledger.jsonl")
    exported = cli.done("export", file, "--json")
    assert exported.json["file"] == file
    assert exported.json["rows"]["keys"] == 1
    assert exported.err == (
        f"The books are in order. {file} has accounts 1, keys 1, requests 0, entries 1.\n"
    )
    cli.database.rename(cli.folder / "old.db")
    imported = cli.done("import", file)
    assert imported.out == ""
    assert imported.err == (
        f"The books are in order. {cli.database} has accounts 1, keys 1, requests 0, entries 1.\n"
    )
    assert cli.done("account", "show", "alice", "--json").json["balance"] == "20.00"


def test_an_import_overwrites_nothing(cli: Cli) -> None:
    cli.done("account", "add", "alice")
    file = str(cli.folder / "ledger.jsonl")
    cli.done("export", file)
    again = cli.run("import", file)
    assert (again.code, again.out) == (ExitCode.FAILED, "")
    assert "exists already; an import needs a new database" in again.err
    assert "exists already; an export overwrites nothing" in cli.run("export", file).err


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
