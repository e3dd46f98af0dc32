"""Passwords, one-use links and sessions, in a real database, on a clock of the test's own."""

from __future__ import annotations

import io
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from support.cli import Cli, make_cli

from gateway import accounts, signin
from gateway.ledger.base import LedgerError
from gateway.ledger.book_signins import (
    HOLDER_IDLE_MS,
    MAX_SESSIONS,
    OPERATOR_IDLE_MS,
    SEEN_EVERY_MS,
    SESSION_MS,
)
from gateway.ledger.books import Books
from gateway.ledger.records import Conflict, NotFound, Refused, SessionView
from gateway.passwords import verify_password
from gateway.signin import LINK_MS, NewSession, Visitor

NAME = "alice"
OPERATOR = "root"
VISITOR = Visitor("Firefox on Linux", "192.0.2.1")
HASH = "a hash"
"""Books keep hashes and never look into them."""


@dataclass
class Clock:
    now_ms: int = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
def books(path: Path, clock: Clock) -> Iterator[Books]:
    with Books.open(path, create=True, clock=clock) as books:
        accounts.add_account(books, NAME)
        accounts.add_account(books, OPERATOR, operator=True)
        yield books


def open_by_link(books: Books, name: str = NAME, visitor: Visitor = VISITOR) -> NewSession:
    made = signin.open_session_by_link(books, signin.make_signin_link(books, name).token, visitor)
    assert made is not None
    return made


def open_by_password(books: Books, visitor: Visitor = VISITOR) -> NewSession | None:
    return signin.open_session_by_password(books, NAME, HASH, None, visitor)


def is_open(books: Books, made: NewSession) -> bool:
    found = signin.find_session(books, made.token)
    assert found is None or found.id == made.view.id
    return found is not None


def read(path: Path, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute(query).fetchall()
    connection.close()
    return rows


def read_events(path: Path) -> list[tuple[object, ...]]:
    return read(path, "SELECT actor, action, account, detail FROM events")[2:]


# ---- passwords -----------------------------------------------------------------------------------


def test_a_password_is_kept_as_a_hash(books: Books, path: Path) -> None:
    assert signin.set_password(books, NAME, "correct horse") == 0
    stored = books.find_password_hash(NAME)
    assert stored is not None
    assert verify_password("correct horse", stored)
    assert books.find_password_hash(OPERATOR) is None
    assert books.find_password_hash("nobody") is None
    assert read_events(path) == [("cli", "account.password", NAME, "ended 0 sessions")]


@pytest.mark.parametrize(
    ("password", "text"),
    [
        ("", "at least 10"),
        ("x" * 9, "at least 10"),
        ("x" * 1025, "at most 1024"),
        ("\u20ac" * 342, "at most 1024"),
        ("x" * 2**20, "at most 1024"),
        ("0123456789\0", "NUL"),
        ("0123456789\udc80", "UTF-8"),
    ],
)
def test_what_no_password_can_be(books: Books, password: str, text: str) -> None:
    with pytest.raises(Refused, match=text) as caught:
        signin.set_password(books, NAME, password)
    assert caught.value.field == "new_password"
    assert password == "" or password not in str(caught.value)


@pytest.mark.parametrize("password", ["x" * 10, "\u20ac" * 341, "x" * 1024])
def test_what_a_password_can_be(password: str) -> None:
    signin.require_new_password(password)


def test_nobody_gets_no_password(books: Books) -> None:
    with pytest.raises(NotFound):
        signin.set_password(books, "nobody", "correct horse")


def test_a_new_password_ends_all_sessions_and_links(books: Books) -> None:
    first, second = open_by_link(books), open_by_link(books)
    other = open_by_link(books, OPERATOR)
    link = signin.make_signin_link(books, NAME)
    assert books.set_password(NAME, HASH) == 2
    assert [is_open(books, one) for one in (first, second, other)] == [False, False, True]
    assert signin.open_session_by_link(books, link.token, VISITOR) is None


def test_a_password_that_was_changed_while_it_was_checked_opens_nothing(books: Books) -> None:
    books.set_password(NAME, HASH)
    books.set_password(NAME, "another hash")
    assert open_by_password(books) is None
    assert books.sessions(books.account(NAME).id) == []


def test_a_renewed_hash_takes_the_place_of_the_old_one(books: Books) -> None:
    books.set_password(NAME, HASH)
    made = signin.open_session_by_password(books, NAME, HASH, "renewed", VISITOR)
    assert made is not None
    assert books.find_password_hash(NAME) == "renewed"


def test_changing_it_goes_on_under_a_new_id(books: Books, path: Path) -> None:
    books.set_password(NAME, HASH)
    own, other = open_by_password(books), open_by_link(books)
    assert own is not None
    visitor = replace(VISITOR, session=own.view)
    made = signin.change_password(books, visitor, HASH, "new hash")
    assert [is_open(books, one) for one in (own, other, made)] == [False, False, True]
    assert made.token != own.token
    assert made.view.id != own.view.id
    assert made.view.opened_by == "password"
    assert read_events(path)[-1] == ("alice", "account.password", NAME, "ended 2 sessions")


def test_a_session_opened_by_a_link_has_to_know_the_password_it_set(books: Books) -> None:
    made = open_by_link(books)
    changed = signin.change_password(books, replace(VISITOR, session=made.view), None, HASH)
    assert changed.view.opened_by == "password"


def test_a_change_that_came_too_late_changes_nothing(books: Books) -> None:
    books.set_password(NAME, HASH)
    made = open_by_link(books)
    visitor = replace(VISITOR, session=made.view)
    with pytest.raises(Conflict):
        signin.change_password(books, visitor, "an earlier hash", "new hash")
    assert is_open(books, made)
    books.end_session(made.view.account, made.view.id)
    with pytest.raises(NotFound):
        signin.change_password(books, visitor, HASH, "new hash")
    assert books.find_password_hash(NAME) == HASH


# ---- links ---------------------------------------------------------------------------------------


def test_a_link_works_once(books: Books, path: Path) -> None:
    link = signin.make_signin_link(books, NAME)
    made = signin.open_session_by_link(books, link.token, VISITOR)
    assert made is not None
    assert made.view.account.name == NAME
    assert made.view.opened_by == "link"
    assert signin.open_session_by_link(books, link.token, VISITOR) is None
    assert read(path, "SELECT * FROM signin_links") == []
    assert read_events(path) == [
        ("cli", "account.signin_link", NAME, ""),
        (NAME, "session.open", NAME, "by link"),
    ]


def test_a_link_expires_within_a_day(books: Books, clock: Clock) -> None:
    link = signin.make_signin_link(books, NAME)
    assert link.expires_ms - clock.now_ms == LINK_MS == 24 * 3_600_000
    clock.now_ms = link.expires_ms
    assert signin.open_session_by_link(books, link.token, VISITOR) is None
    again = signin.make_signin_link(books, NAME)
    clock.now_ms = again.expires_ms - 1
    assert signin.open_session_by_link(books, again.token, VISITOR) is not None


def test_a_new_link_ends_the_earlier_one_of_that_account(books: Books) -> None:
    first, others = signin.make_signin_link(books, NAME), signin.make_signin_link(books, OPERATOR)
    second = signin.make_signin_link(books, NAME)
    assert signin.open_session_by_link(books, first.token, VISITOR) is None
    assert signin.open_session_by_link(books, second.token, VISITOR) is not None
    assert signin.open_session_by_link(books, others.token, VISITOR) is not None


@pytest.mark.parametrize("token", ["", "gwl_", "gwl_" + "A" * 43, "x" * 10_000, "\udc80", "'--"])
def test_no_other_token_opens_anything(books: Books, token: str) -> None:
    signin.make_signin_link(books, NAME)
    assert signin.open_session_by_link(books, token, VISITOR) is None
    assert signin.find_session(books, token) is None


def test_a_link_is_no_session_and_a_session_no_link(books: Books) -> None:
    link = signin.make_signin_link(books, NAME)
    assert signin.find_session(books, link.token) is None
    made = open_by_link(books)
    assert signin.open_session_by_link(books, made.token, VISITOR) is None


def test_a_link_that_many_race_for_opens_one_session(books: Books, path: Path) -> None:
    link = signin.make_signin_link(books, NAME)
    gate, opened = threading.Barrier(4), list[NewSession | None]()

    def race() -> None:
        with Books.open(path, clock=books.clock) as own:
            gate.wait(10)
            opened.append(signin.open_session_by_link(own, link.token, VISITOR))

    racers = [threading.Thread(target=race) for _ in range(4)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert len(opened) == 4
    assert sum(one is not None for one in opened) == 1
    assert len(books.sessions(books.account(NAME).id)) == 1


def test_the_url_has_its_token_where_no_server_sees_it(books: Books) -> None:
    link = signin.make_signin_link(books, NAME)
    assert link.url("https://x") == f"https://x/console/signin#token={link.token}"


def test_no_token_is_kept_or_shown(books: Books, path: Path) -> None:
    link, made = signin.make_signin_link(books, NAME), open_by_link(books, OPERATOR)
    for token in (link.token, made.token):
        assert token not in repr((link, made))
        assert all(token.encode() not in one.read_bytes() for one in path.parent.iterdir())


# ---- sessions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "idle_ms"), [(NAME, HOLDER_IDLE_MS), (OPERATOR, OPERATOR_IDLE_MS)]
)
def test_a_session_ends_when_it_is_not_used(
    books: Books, clock: Clock, name: str, idle_ms: int
) -> None:
    """7 days for holders, 30 minutes for operators; being used puts it off."""
    assert idle_ms == {NAME: 7 * 24 * 60, OPERATOR: 30}[name] * 60_000
    made = open_by_link(books, name)
    for _ in range(3):
        clock.now_ms += idle_ms - 1
        assert is_open(books, made)
    clock.now_ms += idle_ms
    assert not is_open(books, made)
    assert books.sessions(books.account(name).id) == []


@pytest.mark.parametrize("name", [NAME, OPERATOR])
def test_a_session_ends_after_thirty_days_whatever_happens(
    books: Books, clock: Clock, name: str
) -> None:
    made = open_by_link(books, name)
    end_ms = clock.now_ms + SESSION_MS
    assert made.view.expires_ms == end_ms
    assert SESSION_MS == 30 * 24 * 3_600_000
    while clock.now_ms < end_ms - 1:
        assert is_open(books, made)
        clock.now_ms = min(clock.now_ms + OPERATOR_IDLE_MS - SEEN_EVERY_MS, end_ms - 1)
    assert is_open(books, made)
    clock.now_ms = end_ms
    assert not is_open(books, made)


def test_use_is_written_down_once_a_minute(books: Books, clock: Clock, path: Path) -> None:
    made = open_by_link(books)
    opened_ms = clock.now_ms
    for after_ms, seen_ms in ((0, 0), (59_999, 0), (60_000, 60_000), (119_999, 60_000)):
        clock.now_ms = opened_ms + after_ms
        assert is_open(books, made)
        assert read(path, "SELECT last_seen_ms FROM sessions") == [(opened_ms + seen_ms,)]


def test_a_ledger_that_cannot_be_written_shows_its_sessions(
    books: Books, clock: Clock, path: Path
) -> None:
    made = open_by_link(books)
    clock.now_ms += SEEN_EVERY_MS
    books._connection.execute("PRAGMA query_only = ON")
    assert is_open(books, made)
    with pytest.raises(LedgerError):
        books.end_session(made.view.account, made.view.id)
    assert len(read(path, "SELECT id FROM sessions")) == 1


def test_ended_sessions_are_swept_out_when_one_is_opened(
    books: Books, clock: Clock, path: Path
) -> None:
    made = open_by_link(books), open_by_link(books, OPERATOR)
    clock.now_ms += OPERATOR_IDLE_MS
    last = open_by_link(books)
    kept = {row[0] for row in read(path, "SELECT id FROM sessions")}
    assert kept == {made[0].view.id, last.view.id}


def test_an_account_has_so_many_sessions_and_no_more(books: Books, clock: Clock) -> None:
    """The one that was not used for longest goes."""
    made = []
    for _ in range(MAX_SESSIONS + 1):
        made.append(open_by_link(books))
        clock.now_ms += 1
    assert [is_open(books, one) for one in made] == [False] + [True] * MAX_SESSIONS


def test_a_browser_that_signs_in_again_loses_its_earlier_session(books: Books) -> None:
    first = open_by_link(books)
    second = open_by_link(books, OPERATOR, replace(VISITOR, session=first.view))
    assert [is_open(books, one) for one in (first, second)] == [False, True]


def test_the_role_is_read_anew_each_time(books: Books, path: Path, clock: Clock) -> None:
    made = open_by_link(books, OPERATOR)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE accounts SET operator = 0, suspended = 1 WHERE name = 'root'")
    connection.close()
    clock.now_ms += OPERATOR_IDLE_MS
    found = signin.find_session(books, made.token)
    assert found is not None
    assert (found.account.operator, found.account.suspended) == (False, True)


def test_a_suspended_account_signs_in(books: Books) -> None:
    """To see why its requests are refused, and what it was charged."""
    accounts.suspend(books, NAME)
    assert open_by_link(books).view.account.suspended
    books.set_password(NAME, HASH)
    assert open_by_password(books) is not None


def test_sessions_are_listed_the_last_used_first(books: Books, clock: Clock) -> None:
    first = open_by_link(books)
    clock.now_ms += 1
    second = open_by_link(books, NAME, Visitor("curl", "::1"))
    open_by_link(books, OPERATOR)
    listed = books.sessions(books.account(NAME).id)
    assert listed == [second.view, first.view]
    assert [one.device for one in listed] == ["curl", "Firefox on Linux"]


def test_sessions_are_ended_one_by_one(books: Books, path: Path) -> None:
    mine, other = open_by_link(books), open_by_link(books, OPERATOR)
    for session_id in (other.view.id, "ses_nonsense"):
        with pytest.raises(NotFound, match="there is no such session"):
            books.end_session(mine.view.account, session_id)
    books.end_session(mine.view.account, mine.view.id)
    assert [is_open(books, one) for one in (mine, other)] == [False, True]
    assert read_events(path)[-1][1:] == ("session.end", NAME, "")
    with pytest.raises(NotFound, match="there is no such session"):
        books.end_session(mine.view.account, mine.view.id)


def test_all_sessions_but_one_are_ended(books: Books, path: Path) -> None:
    made = [open_by_link(books) for _ in range(3)]
    other = open_by_link(books, OPERATOR)
    assert books.end_other_sessions(made[1].view) == 2
    assert [is_open(books, one) for one in (*made, other)] == [False, True, False, True]
    assert read_events(path)[-1][1:] == ("session.end", NAME, "2 sessions")
    assert books.end_other_sessions(made[1].view) == 0


def test_an_unknown_name_is_not_written_down(books: Books, path: Path) -> None:
    """People type their password where their name goes."""
    books.note_failed_signin("hunter2 hunter2", "password")
    books.note_failed_signin(NAME, "password")
    books.note_failed_signin(None, "link")
    assert read_events(path) == [
        ("cli", "session.fail", None, "by password"),
        ("cli", "session.fail", NAME, "by password"),
        ("cli", "session.fail", None, "by link"),
    ]
    assert b"hunter2" not in b"".join(one.read_bytes() for one in path.parent.iterdir())


# ---- the command line ----------------------------------------------------------------------------


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = make_cli(tmp_path, capsys)
    cli.done("account", "add", NAME)
    return cli


class Stdin(io.TextIOWrapper):
    """What is piped in; a terminal if it says so."""

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
        stored = books.find_password_hash(NAME)
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
    monkeypatch.setattr("gateway.cli_signin.getpass", lambda _prompt: next(typed))
    answer = cli.run("account", "passwd", NAME)
    assert answer.code == code
    with accounts.open_books(cli.database) as books:
        assert (books.find_password_hash(NAME) is not None) is (code == 0)


def test_no_stdin_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert cli.run("account", "passwd", NAME).code == 1


def test_a_password_by_the_command_line_ends_sessions(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    with accounts.open_books(cli.database) as books:
        open_by_link(books)
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
