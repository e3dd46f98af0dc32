"""Sessions: how long they last, who ends them, and what is stored."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.admin import accounts, signin
from gateway.admin.signin import Visitor
from gateway.ledger.records import LedgerError, NotFound
from gateway.ledger.signin_records import (
    HOLDER_IDLE_MS,
    OPERATOR_IDLE_MS,
    OPERATOR_SESSION_MS,
    SESSION_MS,
)
from gateway.ledger.sql.books.signins import MAX_SESSIONS, SEEN_EVERY_MS
from gateway.ledger.sqlite.books import SqliteBooks
from tests.admin.visits import (
    HASH,
    NAME,
    OPERATOR,
    VISITOR,
    Clock,
    is_open,
    open_by_link,
    open_by_password,
    read,
    read_events,
)


@pytest.mark.parametrize(
    ("name", "idle_ms"), [(NAME, HOLDER_IDLE_MS), (OPERATOR, OPERATOR_IDLE_MS)]
)
def test_a_session_ends_when_it_is_not_used(
    books: SqliteBooks, clock: Clock, name: str, idle_ms: int
) -> None:
    """A session lasts 7 days for holders and 30 minutes for operators after its last use."""
    assert idle_ms == {NAME: 7 * 24 * 60, OPERATOR: 30}[name] * 60_000
    made = open_by_link(books, name)
    for _ in range(3):
        clock.now_ms += idle_ms - 1
        assert is_open(books, made)
    clock.now_ms += idle_ms
    assert not is_open(books, made)
    assert books.signins.read_sessions(books.accounts.read(name).id) == []


@pytest.mark.parametrize(("name", "most_ms"), [(NAME, SESSION_MS), (OPERATOR, OPERATOR_SESSION_MS)])
def test_a_session_ends_in_time_whatever_happens(
    books: SqliteBooks, clock: Clock, name: str, most_ms: int
) -> None:
    """A holder's after 30 days, an operator's after 12 hours."""
    made = open_by_link(books, name)
    end_ms = clock.now_ms + most_ms
    assert made.view.expires_ms == end_ms
    assert most_ms == {NAME: 30 * 24, OPERATOR: 12}[name] * 3_600_000
    idle_ms = {NAME: HOLDER_IDLE_MS, OPERATOR: OPERATOR_IDLE_MS}[name]
    while clock.now_ms < end_ms - 1:
        assert is_open(books, made)
        clock.now_ms = min(clock.now_ms + idle_ms - SEEN_EVERY_MS, end_ms - 1)
    assert is_open(books, made)
    clock.now_ms = end_ms
    assert not is_open(books, made)


def test_a_session_is_fresh_for_ten_minutes(books: SqliteBooks, clock: Clock) -> None:
    made = open_by_link(books, OPERATOR)
    assert signin.is_fresh(made.view, clock.now_ms + 600_000)
    assert not signin.is_fresh(made.view, clock.now_ms + 600_001)
    proxied = replace(made.view, opened_by="identity header")
    assert signin.is_fresh(proxied, clock.now_ms + 600_001), "the proxy knows when they signed in"


def test_use_is_written_down_once_a_minute(books: SqliteBooks, clock: Clock, path: Path) -> None:
    made = open_by_link(books)
    opened_ms = clock.now_ms
    for after_ms, seen_ms in ((0, 0), (59_999, 0), (60_000, 60_000), (119_999, 60_000)):
        clock.now_ms = opened_ms + after_ms
        assert is_open(books, made)
        assert read(path, "SELECT last_seen_ms FROM sessions") == [(opened_ms + seen_ms,)]


def test_a_ledger_that_cannot_be_written_shows_its_sessions(
    books: SqliteBooks, clock: Clock, path: Path
) -> None:
    made = open_by_link(books)
    clock.now_ms += SEEN_EVERY_MS
    books.connection.execute("PRAGMA query_only = ON")
    assert is_open(books, made)
    with pytest.raises(LedgerError):
        books.signins.end_session(made.view.account, made.view.id)
    assert len(read(path, "SELECT id FROM sessions")) == 1


def test_ended_sessions_are_swept_out_when_one_is_opened(
    books: SqliteBooks, clock: Clock, path: Path
) -> None:
    made = open_by_link(books), open_by_link(books, OPERATOR)
    clock.now_ms += OPERATOR_IDLE_MS
    last = open_by_link(books)
    kept = {row[0] for row in read(path, "SELECT id FROM sessions")}
    assert kept == {made[0].view.id, last.view.id}


def test_an_account_has_so_many_sessions_and_no_more(books: SqliteBooks, clock: Clock) -> None:
    """The least recently used session is ended."""
    made = []
    for _ in range(MAX_SESSIONS + 1):
        made.append(open_by_link(books))
        clock.now_ms += 1
    assert [is_open(books, one) for one in made] == [False] + [True] * MAX_SESSIONS


def test_a_browser_that_signs_in_again_loses_its_earlier_session(books: SqliteBooks) -> None:
    first = open_by_link(books)
    second = open_by_link(books, OPERATOR, replace(VISITOR, session=first.view))
    assert [is_open(books, one) for one in (first, second)] == [False, True]


def test_the_role_is_read_anew_each_time(books: SqliteBooks, path: Path, clock: Clock) -> None:
    made = open_by_link(books, OPERATOR)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE accounts SET operator = 0, suspended = 1 WHERE name = 'root'")
    connection.close()
    clock.now_ms += OPERATOR_IDLE_MS
    found = signin.find_session(books, made.token)
    assert found is not None
    assert (found.account.operator, found.account.suspended) == (False, True)


def test_a_suspended_account_signs_in(books: SqliteBooks) -> None:
    """Suspended accounts can sign in to see the reason and their charges."""
    accounts.suspend(books, NAME)
    assert open_by_link(books).view.account.suspended
    books.signins.set_password(NAME, HASH)
    assert open_by_password(books) is not None


def test_sessions_are_listed_the_last_used_first(books: SqliteBooks, clock: Clock) -> None:
    first = open_by_link(books)
    clock.now_ms += 1
    second = open_by_link(books, NAME, Visitor("curl", "::1"))
    open_by_link(books, OPERATOR)
    listed = books.signins.read_sessions(books.accounts.read(NAME).id)
    assert listed == [second.view, first.view]
    assert [one.device for one in listed] == ["curl", "Firefox on Linux"]


def test_sessions_are_ended_one_by_one(books: SqliteBooks, path: Path) -> None:
    mine, other = open_by_link(books), open_by_link(books, OPERATOR)
    for session_id in (other.view.id, "ses_nonsense"):
        with pytest.raises(NotFound, match="there is no such session"):
            books.signins.end_session(mine.view.account, session_id)
    books.signins.end_session(mine.view.account, mine.view.id)
    assert [is_open(books, one) for one in (mine, other)] == [False, True]
    assert read_events(path)[-1][1:] == ("session.end", NAME, "")
    with pytest.raises(NotFound, match="there is no such session"):
        books.signins.end_session(mine.view.account, mine.view.id)


def test_all_sessions_but_one_are_ended(books: SqliteBooks, path: Path) -> None:
    made = [open_by_link(books) for _ in range(3)]
    other = open_by_link(books, OPERATOR)
    assert books.signins.end_other_sessions(made[1].view) == 2
    assert [is_open(books, one) for one in (*made, other)] == [False, True, False, True]
    assert read_events(path)[-1][1:] == ("session.end", NAME, "2 sessions")
    assert books.signins.end_other_sessions(made[1].view) == 0


def test_an_unknown_name_is_not_written_down(books: SqliteBooks, path: Path) -> None:
    """Unknown names are not stored, as people type their password into the field for the name."""
    books.signins.note_failure("hunter2 hunter2", "password")
    books.signins.note_failure(NAME, "password")
    books.signins.note_failure(None, "link")
    assert read_events(path) == [
        ("cli", "session.fail", None, "by password"),
        ("cli", "session.fail", NAME, "by password"),
        ("cli", "session.fail", None, "by link"),
    ]
    assert b"hunter2" not in b"".join(one.read_bytes() for one in path.parent.iterdir())
