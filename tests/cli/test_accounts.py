"""The verbs of accounts over a real database: their effects, and what they print on which stream."""

from __future__ import annotations

import io
import re
import sqlite3
from pathlib import Path

import pytest

from gateway.admin import accounts, signin
from gateway.admin.passwords import verify_password
from gateway.admin.signin import Visitor
from gateway.ledger.signin_records import SessionView
from tests.admin.visits import set_up_totp
from tests.support.cli import Cli, make_cli

ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def test_an_account_is_made_with_its_database(cli: Cli) -> None:
    answer = cli.done("account", "add", "alice", "--credit", "20")
    assert answer.out == ""
    assert answer.err == "Account alice added; its balance is 20.00 EUR.\n"
    assert cli.database.stat().st_mode & 0o777 == 0o600


def test_an_account_in_json(cli: Cli) -> None:
    made = cli.done("account", "add", "alice", "--credit", "0.000000001", "--operator", "--json")
    account = made.json
    assert ISO.fullmatch(account.pop("created"))
    assert account == {
        "id": 1,
        "name": "alice",
        "operator": True,
        "suspended": False,
        "balance": "0.000000001",
        "balance_nano": 1,
        "held": "0.00",
        "held_nano": 0,
        **dict.fromkeys(("models", "requests_per_minute", "tokens_per_minute", "concurrency")),
    }
    listed = cli.done("account", "list", "--json").json
    assert [one["name"] for one in listed] == ["alice"]


def test_accounts_are_listed_for_people(cli: Cli, alice: str) -> None:
    cli.done("account", "add", "bo", "--credit", "1234.5", "--operator")
    cli.done("account", "suspend", alice)
    lines = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "WHEN", cli.done("account", "list").out)
    assert lines == (
        "NAME   BALANCE EUR  HELD EUR  STATE             LIMITS  CREATED UTC\n"
        "alice        20.00      0.00  suspended         -       WHEN\n"
        "bo         1234.50      0.00  active, operator  -       WHEN\n"
    )


def test_an_account_s_limits_are_set_edited_and_shown(cli: Cli) -> None:
    made = cli.done("account", "add", "bo", "--rpm", "5", "--models", "demo/echo,b", "--json")
    assert (made.json["requests_per_minute"], made.json["models"]) == (5, ["b", "demo/echo"])
    assert "has no model b" in made.err
    edit = ("account", "edit", "bo", "--concurrency", "0", "--rpm", "none", "--json")
    edited = cli.done(*edit).json
    names = ("requests_per_minute", "tokens_per_minute", "concurrency")
    assert [edited[name] for name in names] == [None, None, 0]
    assert edited["models"] == ["b", "demo/echo"], "what is left out does not change"
    shown = cli.done("account", "show", "bo").out
    assert "limits     unlimited at once\n" in shown
    assert "models     b, demo/echo\n" in shown
    assert cli.run("account", "edit", "bo").code == 1


def test_a_role_changes_but_one_operator_stays(cli: Cli, alice: str) -> None:
    cli.done("account", "edit", alice, "--role", "operator")
    answer = cli.run("account", "edit", alice, "--role", "holder")
    assert (answer.code, answer.out) == (1, "")
    assert "'alice' is the last operator" in answer.err
    cli.done("account", "add", "bo", "--operator")
    assert not cli.done("account", "edit", alice, "--role", "holder", "--json").json["operator"]
    assert "It was the last operator" in cli.done("account", "suspend", "bo").err
    assert "operator" not in cli.done("account", "suspend", alice).err


def test_an_account_is_signed_out(cli: Cli, alice: str) -> None:
    answer = cli.done("account", "end-sessions", alice, "--json")
    assert answer.json == {"account": "alice", "ended": 0}
    assert answer.err.startswith("Account alice is signed out; sessions ended: 0.")
    assert cli.run("account", "end-sessions", "nobody").code == 5


def test_a_credit_is_added_once_per_idempotency_key(cli: Cli, alice: str) -> None:
    words = ("account", "credit", alice, "5", "--idempotency-key", "inv-1")
    first, again = cli.done(*words), cli.done(*words)
    assert first.err == "Account alice: credit 5.00; its balance is 25.00 EUR.\n"
    assert re.fullmatch(
        r"Account alice: credit 5\.00 was already posted on \d{4}-\d\d-\d\d \d\d:\d\d UTC with"
        r" this idempotency key; nothing added\.\n",
        again.err,
    )
    assert cli.done(*words, "--json").json["balance_after"] == "25.00"
    entry = cli.done("account", "credit", alice, "0.1", "--note", "a gift", "--json").json
    assert (entry["kind"], entry["note"], entry["request_id"]) == ("credit", "a gift", None)
    assert (entry["amount"], entry["amount_nano"]) == ("0.10", 100_000_000)
    assert (entry["balance_after"], entry["balance_after_nano"]) == ("25.10", 25_100_000_000)


@pytest.mark.parametrize(
    ("amount", "balance"),
    [("-0.5", "19.50"), ("-20", "0.00"), ("-21", "-1.00"), ("+0.5", "20.50"), ("1", "21.00")],
)
def test_a_correction_goes_either_way(cli: Cli, alice: str, amount: str, balance: str) -> None:
    cli.done("account", "add", "bo", "--credit", "20")
    cli.done("account", "correct", alice, amount, "--note", "n")
    cli.done("account", "correct", "--note", "n", "bo", amount)
    accounts = cli.done("account", "list", "--json").json
    assert [account["balance"] for account in accounts] == [balance, balance]


def test_a_correction_is_made_once_per_idempotency_key(cli: Cli, alice: str) -> None:
    words = ("account", "correct", alice, "-5", "--note", "n", "--idempotency-key", "inv-1")
    assert cli.done(*words).err == "Account alice: correction -5.00; its balance is 15.00 EUR.\n"
    assert "correction -5.00 was already posted on" in cli.done(*words).err
    assert cli.run("account", "correct", alice, "-6", *words[4:]).code == 1


def test_a_correction_says_why(cli: Cli, alice: str) -> None:
    assert cli.run("account", "correct", alice, "1").code == 2
    assert cli.run("account", "correct", alice, "0", "--note", "n").code == 1


def test_an_account_is_suspended_and_resumed(cli: Cli, alice: str) -> None:
    assert cli.done("account", "suspend", alice, "--json").json["suspended"] is True
    assert cli.done("account", "show", alice, "--json").json["suspended"] is True
    assert cli.done("account", "resume", alice, "--json").json["suspended"] is False


def test_an_account_is_shown_with_its_keys_and_entries(cli: Cli, alice: str) -> None:
    key_id, _ = cli.add_key(alice, "--name", "laptop")
    cli.done("account", "correct", alice, "-0.5", "--note", "put right")
    shown = cli.done("account", "show", alice).out
    assert "balance    19.50 EUR\n" in shown
    assert "available  19.50 EUR\n" in shown
    assert re.search(rf"^{key_id}  alice    laptop  sk-ru-…\w{{4}}  active ", shown, re.MULTILINE)
    assert re.search(r"correction +-0\.50 +19\.50  put right$", shown, re.MULTILINE)
    detail = cli.done("account", "show", alice, "--json").json
    assert [key["id"] for key in detail["keys"]] == [key_id]
    assert [entry["amount"] for entry in detail["entries"]] == ["-0.50", "20.00"]


NAME = "alice"
OPERATOR = "root"
VISITOR = Visitor("Firefox on Linux", "192.0.2.1")


def read(path: Path, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute(query).fetchall()
    connection.close()
    return rows


@pytest.fixture
def signed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    made = make_cli(tmp_path, capsys)
    made.done("account", "add", NAME)
    return made


class Stdin(io.TextIOWrapper):
    """A stdin with given bytes, which may claim to be a terminal."""

    def __init__(self, data: bytes = b"", *, is_terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


def find_session_by_cli_link(signed: Cli, url: str) -> SessionView:
    with accounts.open_books(signed.database) as books:
        made = signin.open_session_by_link(books, url.partition("#token=")[2].strip(), VISITOR)
    assert made is not None
    return made.view


@pytest.mark.parametrize("line", ["correct horse", "correct horse\n", "correct horse\r\nmore\n"])
def test_a_password_comes_from_one_line_of_stdin(
    signed: Cli, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(line.encode()))
    answer = signed.done("account", "passwd", NAME)
    assert (answer.out, answer.err) == ("", "The password of account alice is set.\n")
    with accounts.open_books(signed.database) as books:
        stored = books.signins.find_password_hash(NAME)
    assert stored is not None
    assert verify_password("correct horse", stored)


@pytest.mark.parametrize("data", [b"", b"short\n", b"x" * 5000, b"\xff" * 12, b"0123456789\0\n"])
def test_a_bad_password_is_refused_and_not_repeated(
    signed: Cli, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr("sys.stdin", Stdin(data))
    answer = signed.run("account", "passwd", NAME)
    assert answer.code == 1
    assert answer.out == ""
    assert "the password" in answer.err
    assert "short" not in answer.err


@pytest.mark.parametrize(("second", "code"), [("correct horse", 0), ("another horse", 1)])
def test_a_terminal_asks_twice_without_showing(
    signed: Cli, monkeypatch: pytest.MonkeyPatch, second: str, code: int
) -> None:
    typed = iter(["correct horse", second])
    monkeypatch.setattr("sys.stdin", Stdin(is_terminal=True))
    monkeypatch.setattr("gateway.cli.accounts.getpass", lambda _prompt: next(typed))
    answer = signed.run("account", "passwd", NAME)
    assert answer.code == code
    with accounts.open_books(signed.database) as books:
        assert (books.signins.find_password_hash(NAME) is not None) is (code == 0)


def test_no_stdin_is_refused(signed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert signed.run("account", "passwd", NAME).code == 1


def test_a_password_by_the_command_line_ends_sessions(
    signed: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with accounts.open_books(signed.database) as books:
        link = signin.make_signin_link(books, NAME)
        signin.open_session_by_link(books, link.token, VISITOR)
    monkeypatch.setattr("sys.stdin", Stdin(b"correct horse\n"))
    answer = signed.done("account", "passwd", NAME)
    assert answer.err == "The password of account alice is set. Sessions ended: 1.\n"


def test_nobody_is_not_asked_for_a_password(signed: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert signed.run("account", "passwd", "nobody").code == 5
    assert signed.run("account", "signin-link", "nobody").code == 5


@pytest.mark.parametrize(
    ("server", "base"),
    [
        ("", "http://127.0.0.1:8080"),
        ('host = "0.0.0.0"\nport = 81', "http://127.0.0.1:81"),
        ('host = "::"\nport = 81', "http://[::1]:81"),
        ('port = 0\npublic_url = "https://llm.example.com"', "https://llm.example.com"),
    ],
)
def test_a_link_is_alone_on_stdout(signed: Cli, server: str, base: str) -> None:
    text = signed.config.read_text("utf-8")
    signed.config.write_text(f"[server]\n{server}\n{text}", encoding="utf-8")
    answer = signed.done("account", "signin-link", NAME)
    assert answer.out.startswith(f"{base}/console/signin#token=gwl_")
    assert answer.out.count("\n") == 1
    assert "gwl_" not in answer.err
    assert find_session_by_cli_link(signed, answer.out).account.name == NAME


def test_a_link_to_nowhere_is_not_made(signed: Cli) -> None:
    signed.config.write_text(
        "[server]\nport = 0\n" + signed.config.read_text("utf-8"), encoding="utf-8"
    )
    answer = signed.run("account", "signin-link", NAME)
    assert answer.code == 1
    assert "public_url" in answer.err
    assert read(signed.database, "SELECT * FROM signin_links") == []


def test_codes_are_removed_for_somebody_who_lost_the_app(signed: Cli) -> None:
    with accounts.open_books(signed.database) as books:
        set_up_totp(books, NAME)
    answer = signed.done("account", "remove-totp", NAME)
    assert answer.err == (
        "Account alice signs in without one-time codes. Its recovery codes are void.\n"
    )
    again = signed.run("account", "remove-totp", NAME)
    assert (again.code, "has no one-time codes" in again.err) == (5, True)
