"""The verbs of accounts over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import io
import json

import pytest

from gateway.admin import signin
from gateway.admin.passwords import verify_password
from gateway.admin.views import STANDING
from gateway.cli.accounts import _ORDERS
from gateway.ledger.call_records import Spent
from gateway.ledger.key_records import Terms
from gateway.ledger.opening import open_books
from gateway.ledger.records import AccountView, StandingView
from gateway.ledger.signin_records import SessionView
from tests.admin.visits import NAME, VISITOR, read, set_up_totp
from tests.support.cli import CONFIG, Cli
from tests.support.rows import each_row


def test_an_account_is_made_with_its_database(cli: Cli) -> None:
    answer = cli.done("account", "add", "alice", "--credit", "20")
    assert answer.out == ""
    assert answer.err == "Account alice added; its balance is 20.00 EUR.\n"
    assert cli.database.stat().st_mode & 0o777 == 0o600


def test_the_balance_that_ends_first_is_first() -> None:
    def stand(name: str, balance: int, spent_week: int) -> StandingView:
        account = AccountView(1, name, False, False, balance, 0, 0, Terms())
        return StandingView(account, Spent(0, spent_week, 0), 0, None, has_password=False)

    accounts = [stand("unused", 1, 0), stand("long", 10**6, 7), stand("b", 3, 7), stand("a", 1, 7)]
    found = sorted(accounts, key=_ORDERS["lasts"])
    write = dict(STANDING.columns)["LASTS"]
    assert [(one.account.name, write(one)) for one in found] == [
        ("a", "1 day"),
        ("b", "3 days"),
        ("long", "over 999 days"),
        ("unused", "-"),
    ]


@pytest.fixture
def signed(cli: Cli, cheap_passwords: None) -> Cli:
    """A command line with an account, whose passwords are hashed at once."""
    assert cheap_passwords is None
    cli.done("account", "add", NAME)
    return cli


class Stdin(io.TextIOWrapper):
    """A stdin with given bytes, which may claim to be a terminal."""

    def __init__(self, data: bytes = b"", *, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


def find_session_by_cli_link(signed: Cli, url: str) -> SessionView:
    with open_books(signed.database) as books:
        made = signin.open_session_by_link(books, url.partition("#token=")[2].strip(), VISITOR)
    assert made is not None
    return made.view


@each_row("line", ["correct horse", "correct horse\n", "correct horse\r\nmore\n"])
def test_a_password_comes_from_one_line_of_stdin(
    signed: Cli, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(line.encode()))
    answer = signed.done("account", "passwd", NAME)
    assert (answer.out, answer.err) == ("", "The password of account alice is set.\n")
    with open_books(signed.database) as books:
        stored = books.people.find_hash(books.people.read(NAME))
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
    monkeypatch.setattr("gateway.cli.arguments.getpass", lambda _prompt: next(typed))
    answer = signed.run("account", "passwd", NAME)
    assert answer.code == code
    with open_books(signed.database) as books:
        assert (books.people.find_password(NAME) is not None) is (code == 0)


def test_no_stdin_is_refused(signed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert signed.run("account", "passwd", NAME).code == 1


def test_a_password_by_the_command_line_ends_sessions(
    signed: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_books(signed.database) as books:
        link = signin.make_signin_link(books, NAME)
        signin.open_session_by_link(books, link.token, VISITOR)
    monkeypatch.setattr("sys.stdin", Stdin(b"correct horse\n"))
    answer = signed.done("account", "passwd", NAME)
    assert answer.err == "The password of account alice is set. Sessions ended: 1.\n"


def test_nobody_is_not_asked_for_a_password(signed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert signed.run("account", "passwd", "nobody").code == 5
    assert signed.run("account", "signin-link", "nobody").code == 5


@each_row(
    ("server", "base"),
    [
        ("", "http://127.0.0.1:8080"),
        ('host = "0.0.0.0"\nport = 81', "http://127.0.0.1:81"),
        ('host = "::"\nport = 81', "http://[::1]:81"),
        ('port = 0\npublic_url = "https://llm.example.com"', "https://llm.example.com"),
    ],
)
def test_a_link_is_alone_on_stdout(signed: Cli, server: str, base: str) -> None:
    signed.config.write_text(f"[server]\n{server}\n{CONFIG}", encoding="utf-8")
    answer = signed.done("account", "signin-link", NAME)
    assert answer.out.startswith(f"{base}/console/signin#token=gwl_")
    assert answer.out.count("\n") == 1
    assert "gwl_" not in answer.err
    assert find_session_by_cli_link(signed, answer.out).account.name == NAME


def test_a_link_to_nowhere_is_not_made(signed: Cli) -> None:
    signed.config.write_text(f"[server]\nport = 0\n{CONFIG}", encoding="utf-8")
    answer = signed.run("account", "signin-link", NAME)
    assert answer.code == 1
    assert "public_url" in answer.err
    assert not read(signed.database, "SELECT * FROM signin_links")


def test_a_person_has_a_sign_in_by_the_command_line(
    signed: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Made by a link or a password, listed, and removed; the account's own stays as it was."""
    link = signed.done("account", "signin-link", NAME, "--for", "dana")
    assert link.err.startswith("This link signs in as alice/dana once, until")
    assert find_session_by_cli_link(signed, link.out).signin.name == "alice/dana"
    monkeypatch.setattr("sys.stdin", Stdin(b"correct horse\n"))
    answer = signed.done("account", "passwd", NAME, "--for", "dana")
    assert answer.err == "The password of account alice/dana is set. Sessions ended: 1.\n"
    with open_books(signed.database) as books:
        assert books.people.find_password(NAME) is None
        set_up_totp(books, NAME, "dana")
    listed = signed.done("account", "signins", NAME)
    assert [line.split()[0] for line in listed.out.splitlines()] == ["NAME", NAME, "alice/dana"]
    described = json.loads(signed.done("account", "signins", NAME, "--json").out)
    assert [(one["person"], one["totp"] is None) for one in described] == [
        *((None, True), ("dana", False))
    ]
    assert signed.run("account", "remove-totp", NAME).code == 5
    removed = signed.done("account", "remove-totp", NAME, "--for", "dana")
    assert removed.err.startswith("Account alice/dana signs in without one-time codes.")
    answer = signed.done("account", "signin-remove", NAME, "--for", "dana")
    assert answer.err == "dana no longer signs in to account alice; sessions ended: 0.\n"
    assert signed.run("account", "signin-remove", NAME, "--for", "dana").code == 5


def test_codes_are_removed_for_somebody_who_lost_the_app(signed: Cli) -> None:
    with open_books(signed.database) as books:
        set_up_totp(books, NAME)
    answer = signed.done("account", "remove-totp", NAME)
    assert answer.err == (
        "Account alice signs in without one-time codes. Its recovery codes are void.\n"
    )
    again = signed.run("account", "remove-totp", NAME)
    assert (again.code, "has no one-time codes" in again.err) == (5, True)
