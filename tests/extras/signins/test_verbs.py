"""The verbs of signing in over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gateway.extras.signins.passwords import verify_password
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.sessions import SignInBook
from gateway.ledger.opening import open_books
from tests.admin.visits import NAME
from tests.extras.signins.visits import open_by_link, set_up_totp
from tests.support.cli import Cli, make_cli
from tests.support.rows import each_row


@pytest.fixture
def signed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """A command line with an account."""
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


@each_row("line", ["correct horse", "correct horse\n", "correct horse\r\nmore\n"])
def test_a_password_comes_from_one_line_of_stdin(
    signed: Cli, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(line.encode()))
    answer = signed.done("account", "passwd", NAME)
    assert (answer.out, answer.err) == ("", "The password of account alice is set.\n")
    with open_books(signed.database) as books:
        stored = PeopleBook(books).find_hash(PeopleBook(books).read(NAME))
    assert stored is not None
    assert verify_password("correct horse", stored)


@each_row("data", [b"", b"short\n", b"x" * 5000, b"\xff" * 12, b"0123456789\0\n"])
def test_a_bad_password_is_refused_and_not_repeated(
    signed: Cli, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(data))
    answer = signed.run("account", "passwd", NAME)
    assert answer.code == 1
    assert answer.out == ""
    assert "the password" in answer.err
    assert "short" not in answer.err


@each_row(("second", "code"), [("another horse", 1), ("correct horse", 0)])
def test_a_terminal_asks_twice_without_showing(
    signed: Cli, monkeypatch: pytest.MonkeyPatch, second: str, code: int
) -> None:
    typed = iter(["correct horse", second])
    monkeypatch.setattr("sys.stdin", Stdin(is_terminal=True))
    monkeypatch.setattr("gateway.extras.signins.verbs.getpass", lambda _prompt: next(typed))
    answer = signed.run("account", "passwd", NAME)
    assert answer.code == code
    with open_books(signed.database) as books:
        assert (PeopleBook(books).find_password(NAME) is not None) is (code == 0)


@each_row(
    ("error", "said"),
    [
        (EOFError(), "no password was typed; nothing was changed"),
        (
            UnicodeDecodeError("utf-8", b"horse", 0, 1, ""),
            "what was typed is not in the terminal's",
        ),
    ],
)
def test_no_password_on_a_terminal_is_no_traceback(
    signed: Cli, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def refuse(_prompt: str) -> str:
        raise error

    monkeypatch.setattr("sys.stdin", Stdin(is_terminal=True))
    monkeypatch.setattr("gateway.extras.signins.verbs.getpass", refuse)
    answer = signed.run("account", "passwd", NAME)
    assert (answer.code, answer.err.partition(": ")[2].startswith(said)) == (1, True)
    assert "horse" not in answer.err


def test_no_stdin_is_refused(signed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert signed.run("account", "passwd", NAME).code == 1


def test_a_password_by_the_command_line_ends_sessions(
    signed: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_books(signed.database) as books:
        open_by_link(books)
    monkeypatch.setattr("sys.stdin", Stdin(b"correct horse\n"))
    answer = signed.done("account", "passwd", NAME)
    assert answer.err == "The password of account alice is set. Sessions ended: 1.\n"


def test_codes_are_removed_for_somebody_who_lost_the_app(signed: Cli) -> None:
    with open_books(signed.database) as books:
        SignInBook(books).set_password(NAME, "hash", "dana")
        for person in ("", "dana"):
            set_up_totp(books, NAME, person)
    removed = signed.done("account", "remove-totp", NAME, "--for", "dana", "--json")
    assert removed.json == {"account": NAME, "person": "dana", "totp": None}
    assert removed.err.startswith("Account alice/dana signs in without one-time codes.")
    described = signed.done("account", "signins", NAME, "--json").json
    assert [one["totp"] is None for one in described] == [False, True]
    answer = signed.done("account", "remove-totp", NAME)
    assert answer.err == (
        "Account alice signs in without one-time codes. Its recovery codes are void.\n"
    )
    again = signed.run("account", "remove-totp", NAME)
    assert (again.code, "has no one-time codes" in again.err) == (5, True)
