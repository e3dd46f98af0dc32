"""The whole command line: grammar, help, exit codes, and interrupted commands."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gateway import apikeys
from gateway.version import find_version
from tests import ROOT
from tests.support.cli import Cli
from tests.support.rows import each_row

# ---- exit codes ----------------------------------------------------------------------------------


@each_row(
    "words",
    [
        ["account", "list"],
        ["account", "show", "a"],
        ["account", "credit", "a", "1"],
        ["key", "add", "a"],
        ["key", "list"],
        ["code", "make", "--amount", "1"],
        ["code", "list"],
        ["usage"],
        ["audit"],
        ["events"],
    ],
)
def test_a_missing_database_is_not_made_and_exits_5(cli: Cli, words: Sequence[str]) -> None:
    answer = cli.run(*words)
    assert (answer.code, answer.out) == (5, "")
    assert str(cli.database) in answer.err
    assert not cli.database.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["account", "show", "bo"],
        ["account", "credit", "bo", "1"],
        ["account", "correct", "bo", "1", "--note", "n"],
        ["account", "correct", "alice", "1", "--note", "n", "--request", "none"],
        ["account", "suspend", "bo"],
        ["account", "resume", "bo"],
        ["key", "add", "bo"],
        ["key", "list", "bo"],
        ["key", "rotate", "none"],
        ["key", "revoke", "none"],
        ["key", "edit", "none", "--name", "n"],
        ["code", "void", "none"],
        ["code", "void", "--batch", "none"],
        ["usage", "--account", "bo"],
    ],
)
def test_what_is_not_there_exits_5(cli: Cli, words: Sequence[str]) -> None:
    cli.done("account", "add", "alice")
    answer = cli.run(*words)
    assert (answer.code, answer.out) == (5, "")
    assert re.fullmatch(r"python -m gateway: .+\n", answer.err)


def test_what_is_refused_exits_1(cli: Cli) -> None:
    cli.done("account", "add", "alice")
    answer = cli.run("account", "add", "alice")
    assert (answer.code, answer.out) == (1, "")
    assert "alice" in answer.err


def test_a_database_that_cannot_be_used_exits_69(cli: Cli) -> None:
    cli.done("account", "add", "alice")
    with sqlite3.connect(cli.database) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    answer = cli.run("account", "list")
    assert (answer.code, answer.out) == (69, "")
    cli.database.write_bytes(b"no database" * 1000)
    assert cli.run("account", "list").code == 69


@each_row("verb", [[], ["serve"], ["check"], ["account", "list"], ["audit"]])
def test_a_bad_configuration_exits_78(cli: Cli, verb: Sequence[str]) -> None:
    cli.config.write_text("[servr]")
    answer = cli.run(*verb)
    assert (answer.code, answer.out) == (78, "")
    assert answer.err.count("\n") == 1


def test_a_missing_configuration_exits_78_and_says_what_to_do(cli: Cli) -> None:
    answer = cli.run("account", "list", environ={"GATEWAY_CONFIG": "/nonexistent/g.toml"})
    assert answer.code == 78
    assert "/nonexistent/g.toml: there is no such file. Name yours with --config" in answer.err


def test_the_configuration_is_found_by_option_variable_or_folder(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli.done("account", "add", "alice")
    here, elsewhere = str(cli.config), {"GATEWAY_CONFIG": "/nonexistent/g.toml"}
    assert cli.run("account", "list", environ={"GATEWAY_CONFIG": here}).code == 0
    assert cli.run("--config", here, "account", "list", environ=elsewhere).code == 0
    assert cli.run("account", "list", "--config", here, environ=elsewhere).code == 0
    monkeypatch.chdir(cli.folder)
    assert cli.run("account", "list", environ={}).code == 0
    assert cli.run("account", "list", environ={"GATEWAY_CONFIG": ""}).code == 0


def test_the_version_is_shown_without_a_configuration(cli: Cli) -> None:
    cli.config.unlink()
    answer = cli.done("--version")
    assert (answer.out, answer.err) == (f"gateway {find_version()}\n", "")


def test_only_what_serves_needs_the_keys_of_providers(cli: Cli) -> None:
    """The configuration names a systemd credential, which an operator's shell does not have."""
    assert cli.run("account", "add", "alice").code == 0
    assert cli.run("check").code == 78


# ---- as a process --------------------------------------------------------------------------------


def start(cli: Cli, *words: str, out: int = subprocess.PIPE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "gateway", *words],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ
        | {"GATEWAY_CONFIG": str(cli.config), "PYTHONIOENCODING": "ascii", "PYTHONUNBUFFERED": ""},
    )


def test_a_key_can_be_taken_from_stdout(cli: Cli) -> None:
    cli.done("account", "add", "alice")
    with start(cli, "key", "add", "alice") as process:
        out, err = process.communicate()
    assert process.returncode == 0
    assert apikeys.is_well_formed(out.removesuffix("\n"))
    assert out.removesuffix("\n") not in err


def test_a_terminal_without_unicode_loses_no_answer(cli: Cli) -> None:
    cli.done("account", "add", "alice")
    cli.add_key("alice")
    with start(cli, "key", "list") as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "sk-ru-\\u2026" in out


@pytest.mark.parametrize("words", [["account", "list"], ["--help"]])
def test_a_reader_that_left_is_no_traceback(cli: Cli, words: Sequence[str]) -> None:
    cli.done("account", "add", "alice")
    reading, writing = os.pipe()
    os.close(reading)
    with start(cli, *words, out=writing) as process:
        os.close(writing)
        _, err = process.communicate()
    assert (process.returncode, err) == (1, "")


def test_a_full_disk_behind_stdout_is_no_traceback(cli: Cli) -> None:
    """The id of a key that could not be printed is known, so the key can be revoked."""
    cli.done("account", "add", "alice")
    with (
        Path("/dev/full").open("w") as full,
        start(cli, "key", "add", "alice", out=full.fileno()) as process,
    ):
        _, err = process.communicate()
    assert process.returncode == 1
    assert re.fullmatch(
        r"Key key_\w+ of account alice, shown this once:\n"
        r"python -m gateway: No space left on device\n",
        err,
    )


@pytest.fixture
def sigint() -> Iterator[None]:
    """Restore SIGINT, which a shell ignores for background jobs and children inherit."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("sigint")
def test_ctrl_c_is_no_traceback(cli: Cli) -> None:
    """The configuration is a pipe that never ends, so the command waits until the signal comes."""
    cli.config.unlink()
    os.mkfifo(cli.config)
    # The pipe opens once the command reads it.
    with start(cli, "account", "list") as process, cli.config.open("w"):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert (process.returncode, err) == (130, "")
