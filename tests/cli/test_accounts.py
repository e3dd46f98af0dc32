"""The verbs of accounts over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import io

import pytest

from gateway.admin.passwords import verify_password
from gateway.admin.views import STANDING
from gateway.cli.accounts import _ORDERS
from gateway.ledger.call_records import Spent
from gateway.ledger.key_records import Terms
from gateway.ledger.opening import open_books
from gateway.ledger.records import AccountView, StandingView
from tests.admin.visits import NAME, open_by_link, set_up_totp
from tests.support.cli import Cli
from tests.support.rows import each_row


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
        open_by_link(books)
    monkeypatch.setattr("sys.stdin", Stdin(b"correct horse\n"))
    answer = signed.done("account", "passwd", NAME)
    assert answer.err == "The password of account alice is set. Sessions ended: 1.\n"


def test_codes_are_removed_for_somebody_who_lost_the_app(signed: Cli) -> None:
    with open_books(signed.database) as books:
        books.signins.set_password(NAME, "hash", "dana")
        for person in ("", "dana"):
            set_up_totp(books, NAME, person)
    removed = signed.done("account", "remove-totp", NAME, "--for", "dana")
    assert removed.err.startswith("Account alice/dana signs in without one-time codes.")
    described = signed.done("account", "signins", NAME, "--json").json
    assert [one["totp"] is None for one in described] == [False, True]
    answer = signed.done("account", "remove-totp", NAME)
    assert answer.err == (
        "Account alice signs in without one-time codes. Its recovery codes are void.\n"
    )
    again = signed.run("account", "remove-totp", NAME)
    assert (again.code, "has no one-time codes" in again.err) == (5, True)
