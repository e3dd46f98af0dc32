"""`account passwd` and `account signin-link`: input, output and what is stored."""

from __future__ import annotations

import io
import sqlite3
from pathlib import Path

import pytest

from gateway.admin import accounts, signin
from gateway.admin.passwords import verify_password
from gateway.admin.signin import Visitor
from gateway.ledger import SessionView
from tests.support.cli import Cli, make_cli

NAME = "alice"
OPERATOR = "root"
VISITOR = Visitor("Firefox on Linux", "192.0.2.1")


def read(path: Path, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute(query).fetchall()
    connection.close()
    return rows


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = make_cli(tmp_path, capsys)
    cli.done("account", "add", NAME)
    return cli


class Stdin(io.TextIOWrapper):
    """A stdin with given bytes, which may claim to be a terminal."""

    def __init__(self, data: bytes = b"", *, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


def find_session_by_cli_link(cli: Cli, url: str) -> SessionView:
    with accounts.open_books(cli.database) as books:
        made = signin.open_session_by_link(books, url.partition("#token=")[2].strip(), VISITOR)
    assert made is not None
    return made.view


@pytest.mark.parametrize("line", ["correct horse", "correct horse\n", "correct horse\r\nmore\n"])
def test_a_password_comes_from_one_line_of_stdin(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(line.encode()))
    answer = cli.done("account", "passwd", NAME)
    assert (answer.out, answer.err) == ("", "The password of account alice is set.\n")
    with accounts.open_books(cli.database) as books:
        stored = books.signins.find_password_hash(NAME)
    assert stored is not None
    assert verify_password("correct horse", stored)


@pytest.mark.parametrize("data", [b"", b"short\n", b"x" * 5000, b"\xff" * 12, b"0123456789\0\n"])
def test_a_bad_password_is_refused_and_not_repeated(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(data))
    answer = cli.run("account", "passwd", NAME)
    assert answer.code == 1
    assert answer.out == ""
    assert "the password" in answer.err
    assert "short" not in answer.err


@pytest.mark.parametrize(("second", "code"), [("correct horse", 0), ("another horse", 1)])
def test_a_terminal_asks_twice_without_showing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, second: str, code: int
) -> None:
    typed = iter(["correct horse", second])
    monkeypatch.setattr("sys.stdin", Stdin(is_terminal=True))
    monkeypatch.setattr("gateway.cli.signin.getpass", lambda _prompt: next(typed))
    answer = cli.run("account", "passwd", NAME)
    assert answer.code == code
    with accounts.open_books(cli.database) as books:
        assert (books.signins.find_password_hash(NAME) is not None) is (code == 0)


def test_no_stdin_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert cli.run("account", "passwd", NAME).code == 1


def test_a_password_by_the_command_line_ends_sessions(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with accounts.open_books(cli.database) as books:
        link = signin.make_signin_link(books, NAME)
        signin.open_session_by_link(books, link.token, VISITOR)
    monkeypatch.setattr("sys.stdin", Stdin(b"correct horse\n"))
    answer = cli.done("account", "passwd", NAME)
    assert answer.err == "The password of account alice is set. Sessions ended: 1.\n"


def test_nobody_is_not_asked_for_a_password(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert cli.run("account", "passwd", "nobody").code == 5
    assert cli.run("account", "signin-link", "nobody").code == 5


@pytest.mark.parametrize(
    ("server", "base"),
    [
        ("", "http://127.0.0.1:8080"),
        ('host = "0.0.0.0"\nport = 81', "http://127.0.0.1:81"),
        ('host = "::"\nport = 81', "http://[::1]:81"),
        ('port = 0\npublic_url = "https://llm.example.com"', "https://llm.example.com"),
    ],
)
def test_a_link_is_alone_on_stdout(cli: Cli, server: str, base: str) -> None:
    text = cli.config.read_text("utf-8")
    cli.config.write_text(f"[server]\n{server}\n{text}", encoding="utf-8")
    answer = cli.done("account", "signin-link", NAME)
    assert answer.out.startswith(f"{base}/console/signin#token=gwl_")
    assert answer.out.count("\n") == 1
    assert "gwl_" not in answer.err
    assert find_session_by_cli_link(cli, answer.out).account.name == NAME


def test_a_link_to_nowhere_is_not_made(cli: Cli) -> None:
    cli.config.write_text("[server]\nport = 0\n" + cli.config.read_text("utf-8"), encoding="utf-8")
    answer = cli.run("account", "signin-link", NAME)
    assert answer.code == 1
    assert "public_url" in answer.err
    assert read(cli.database, "SELECT * FROM signin_links") == []
